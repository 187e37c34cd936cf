//! The allocator of a program that is recorded, from the files that it maps.

use farreach_live::allocator_of;
use farreach_types::addr::Asid;
use farreach_types::event::{Backing, Batch, Op};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A program image.
#[derive(Default)]
struct Image {
    program: PathBuf,
    files: Vec<PathBuf>,
    words: u64,
}

/// The images of a recording, as its batches come.
#[derive(Default)]
pub struct Images(HashMap<Asid, Image>);

impl Images {
    /// Follows a batch.
    pub fn see(&mut self, batch: &Batch) {
        self.0.entry(batch.asid).or_default().words += batch.words.len() as u64;
        for op in &batch.ops {
            match op {
                Op::Start { program, .. } => self.of(batch.asid).program = Path::new(&**program).into(),
                Op::Map(mapping) => {
                    let Backing::File { path, .. } = &mapping.backing else { continue };
                    let files = &mut self.of(batch.asid).files;
                    if files.last().is_none_or(|last| last != Path::new(&**path)) {
                        files.push(Path::new(&**path).into());
                    }
                }
                Op::Fork { child } => {
                    let parent = self.of(batch.asid);
                    let copy = Image { program: parent.program.clone(), files: parent.files.clone(), words: 0 };
                    self.0.insert(*child, copy);
                }
                _ => {}
            }
        }
    }

    fn of(&mut self, asid: Asid) -> &mut Image {
        self.0.entry(asid).or_default()
    }

    /// That of the image that executed most.
    pub fn allocator(&self) -> Option<String> {
        let most =
            self.0.values().filter(|image| !image.program.as_os_str().is_empty()).max_by_key(|image| image.words);
        most.map(|image| allocator_of(&image.program, &image.files).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::event::{Mapping, Prot};

    #[test]
    fn the_image_that_executes_most_counts() {
        let file = |path: &str| {
            let backing = Backing::File { path: path.into(), offset: 0 };
            Op::Map(Mapping { start: 4096, len: 4096, prot: Prot::RW, shared: false, backing })
        };
        let start = |program: &str| Op::Start { pid: 1, parent: None, program: program.into() };
        let mut images = Images::default();
        assert_eq!(images.allocator(), None);
        let shell =
            Batch { asid: Asid(0), words: vec![0; 10], ops: vec![start("/no/sh"), Op::Fork { child: Asid(1) }] };
        images.see(&shell);
        let ops = vec![start("/no/server"), file("/lib/libjemalloc.so.2")];
        images.see(&Batch { asid: Asid(1), words: vec![0; 20], ops });
        assert_eq!(images.allocator().as_deref(), Some("jemalloc"));
        images.see(&Batch { asid: Asid(0), words: vec![0; 20], ops: Vec::new() });
        assert_eq!(images.allocator(), Some(allocator_of(Path::new("/no/sh"), &[]).to_string()));
    }
}
