//! A compiled module at work: a process that takes requests in batches.

use crate::request::Answer;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// See the module.
pub struct Model {
    name: String,
    process: Child,
    to: ChildStdin,
    from: ChildStdout,
}

impl Model {
    /// Starts a program.
    pub fn start(name: &str, program: &Path) -> Result<Model, String> {
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let (to, from) = (process.stdin.take().expect("it is piped"), process.stdout.take().expect("it is piped"));
        Ok(Model { name: name.to_owned(), process, to, from })
    }

    /// Sends a batch. The model takes all of it before it begins to work, so this does not wait for the work.
    pub fn send(&mut self, requests: u64, words: &[u64]) -> Result<(), String> {
        let sent = self.write(&[1, requests, words.len() as u64]).and_then(|()| self.write(words));
        sent.map_err(|e| self.ended(&e))
    }

    /// Waits for this number of words of answers.
    pub fn receive(&mut self, words: usize) -> Result<Vec<u64>, String> {
        let mut bytes = vec![0; words * 8];
        self.from.read_exact(&mut bytes).map_err(|e| self.ended(&e))?;
        Ok(bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))).collect())
    }

    /// Has the last batch run again up to one of its requests, and a waveform written of it.
    pub fn trace(&mut self, request: u64, file: &Path) -> Result<(), String> {
        let name = file.to_str().ok_or_else(|| format!("{}: a name that is no UTF-8 text", file.display()))?;
        let mut words = vec![2, request, name.len() as u64];
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize((name.len() / 8 + 1) * 8, 0);
        words.extend(bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes"))));
        self.write(&words).map_err(|e| self.ended(&e))?;
        match self.receive(1)?[..] {
            [1] => Ok(()),
            _ => Err(format!("{name}: the waveform could not be written")),
        }
    }

    fn write(&mut self, words: &[u64]) -> std::io::Result<()> {
        let mut bytes = vec![0; words.len() * 8];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
        self.to.write_all(&bytes)
    }

    fn ended(&mut self, why: &std::io::Error) -> String {
        match why.kind() {
            ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                let how = self.process.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
                format!("the model of {} ended before its work was done: {how}", self.name)
            }
            _ => format!("the model of {}: {why}", self.name),
        }
    }
}

impl Drop for Model {
    /// Without input it ends by itself; it is not waited for any longer than it takes to see that.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Words of answers to requests, some of which also ask for state.
pub fn answer_words(requests: usize, states: usize, state_words: usize) -> usize {
    requests * Answer::WORDS + states * state_words
}
