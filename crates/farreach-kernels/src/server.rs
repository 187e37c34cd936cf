//! A server and its kernel. Requests arrive through socket buffers and name a page of a file; answers come from the
//! page cache. Two of three data references are the kernel's, which copies between the program's buffers and its own
//! memory.
//!
//! Three quarters of the memory are the kernel's direct map: socket buffers, the nodes of the page-cache index, and the
//! cached pages, at random places. Page by page the kernel maps a table of descriptors, which every call reads, and
//! other tables, which one call in [`SELDOM`] reads. That share is an assumption, and so is the part of the kernel's
//! misses that lie in the direct map (DS13-43). The kernel's code is in the text of the program: fetches never go to a
//! segment (AMB-63), and the direct map has no code.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, System, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "server",
    class: "system calls of a server",
    stands_for: "a server with its kernel",
    about: "requests by Zipf's law, answered from the page cache: two references of three through the kernel's direct \
            map",
    default_size: 256 << 20,
    small_size: 16 << 20,
    smallest: 8 << 20,
    largest: 64 << 30,
    layout: Layout::Mapped,
    text_pages: 4,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Memory is copied 32 bytes at a time.
type Cell = [u64; 4];
/// Units of a page.
const PAGE: usize = 4096 / 32;
/// Connections, each with a page of socket buffer.
const CONNECTIONS: usize = 1024;
/// Units of a request and of an answer.
const REQUEST: usize = 4;
const ANSWER: usize = 32;
/// Units of the program's buffer for answers.
const BUFFER: usize = 2048;
/// Entries of a node of the page-cache index.
const FANOUT: usize = 64;
/// Units of the table of descriptors.
const DESCRIPTORS: usize = CONNECTIONS;
/// One call in this many reads an entry of the other tables.
const SELDOM: usize = 16;

struct Server<M: Memory> {
    /// The page of memory behind each page of sockets, nodes and files.
    frames: Vec<u32>,
    nodes: usize,
    files: usize,
    direct: M::Array<Cell>,
    /// Descriptors, then the other tables.
    variable: M::Array<Cell>,
    tables: usize,
    index: M::Array<u32>,
    sessions: M::Array<Cell>,
    session_count: usize,
    request: M::Array<Cell>,
    answer: M::Array<Cell>,
    sent: usize,
}

impl<M: Memory> Server<M> {
    fn new(m: &mut M, s: &Settings) -> Server<M> {
        let pages = s.size as usize / 4 * 3 / 4096;
        let mut rng = Rng::new(s.seed ^ 0x5e1f);
        let nodes = (pages - CONNECTIONS).div_ceil(FANOUT);
        let files = pages - CONNECTIONS - nodes;
        // A key names any page of a file.
        let index: Vec<u32> = rng.order(files);
        let tables = (s.size as usize / 64 / 32).max(DESCRIPTORS);
        let session_count = s.size as usize / 8 / 32;
        Server {
            frames: rng.order(pages),
            nodes,
            files,
            direct: m.system(System::DirectMap, pages * PAGE),
            variable: m.system(System::Variable, DESCRIPTORS + tables),
            tables,
            index: m.input(index.into_iter()),
            sessions: m.opaque(session_count),
            session_count,
            request: m.opaque(REQUEST),
            answer: m.opaque(BUFFER),
            sent: 0,
        }
    }

    /// Unit `at` of the page with this use.
    fn unit(&self, usage: usize, at: usize) -> usize {
        self.frames[usage] as usize * PAGE + at
    }

    /// recv: copies from the socket's buffer. `seldom`: the entry of the other tables to read, if any.
    fn receive(&mut self, m: &mut M, connection: usize, key: usize, seldom: usize) -> u64 {
        const DESCRIPTOR: Site = site(0, 0);
        const TABLE: Site = site(0, 1);
        const FROM: Site = site(0, 2);
        const TO: Site = site(0, 3);
        let mut sum = m.load(DESCRIPTOR, &self.variable, connection)[0];
        if seldom < self.tables {
            sum ^= m.load(TABLE, &self.variable, DESCRIPTORS + seldom)[0];
        }
        for k in 0..REQUEST {
            let unit = m.load(FROM, &self.direct, self.unit(connection, k));
            m.store(TO, &mut self.request, k, [unit[0] ^ key as u64, 1, 2, 3]);
        }
        sum
    }

    /// The program parses the request: which page it names.
    fn understand(&mut self, m: &mut M, connection: usize, key: usize) -> (usize, u64) {
        const PARSE: Site = site(1, 0);
        const HASH: Site = site(1, 1);
        const INDEX: Site = site(1, 2);
        const SESSION: Site = site(1, 3);
        let mut sum = 0;
        for k in 0..REQUEST {
            sum ^= m.load(PARSE, &self.request, k)[0];
        }
        m.work(HASH);
        let page = m.load(INDEX, &self.index, key) as usize;
        let session = (connection * 0x9e37 + key * 31) % self.session_count;
        m.update(SESSION, &mut self.sessions, session, |[n, ..]| [n + 1, key as u64, 0, 0]);
        (page, sum)
    }

    /// pread: finds the page in the page cache and copies a part of it.
    fn read(&mut self, m: &mut M, page: usize, part: usize) -> u64 {
        const NODE: Site = site(2, 0);
        const FROM: Site = site(2, 1);
        const TO: Site = site(2, 2);
        let node = self.unit(CONNECTIONS + page / FANOUT % self.nodes, page % FANOUT);
        let mut sum = m.load(NODE, &self.direct, node)[0];
        for k in 0..ANSWER {
            let from = self.unit(CONNECTIONS + self.nodes + page, part * ANSWER + k);
            let unit = m.load(FROM, &self.direct, from);
            sum = sum.wrapping_add(unit[0]);
            m.store(TO, &mut self.answer, (self.sent + k) % BUFFER, [unit[0] + 1, page as u64, 0, 0]);
        }
        sum
    }

    /// The program reads the answer and sends it.
    fn send(&mut self, m: &mut M, connection: usize) -> u64 {
        const CHECK: Site = site(3, 0);
        const FROM: Site = site(3, 1);
        const TO: Site = site(3, 2);
        let mut sum = 0u64;
        for k in (0..ANSWER).step_by(2) {
            sum = sum.rotate_left(3) ^ m.load(CHECK, &self.answer, (self.sent + k) % BUFFER)[1];
        }
        for k in 0..ANSWER {
            let unit = m.load(FROM, &self.answer, (self.sent + k) % BUFFER);
            let to = self.unit(connection, REQUEST + k);
            m.store(TO, &mut self.direct, to, unit);
        }
        self.sent += ANSWER;
        sum
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut server = Server::new(m, s);
    let mut rng = Rng::new(s.seed);
    let mut sum = 1u64;
    while m.budget_left() {
        let (connection, key, part) = (rng.below(CONNECTIONS), rng.zipf(server.files), rng.below(PAGE / ANSWER));
        let seldom = rng.below(SELDOM * server.tables);
        sum = sum.rotate_left(5) ^ server.receive(m, connection, key, seldom);
        let (page, parsed) = server.understand(m, connection, key);
        sum = sum.rotate_left(5) ^ parsed ^ server.read(m, page, part);
        sum = sum.rotate_left(5) ^ server.send(m, connection);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_what_the_page_holds() {
        let mut m = Native::new(u64::MAX);
        let mut server = Server::new(&mut m, &Settings { size: 8 << 20, references: 1, seed: 0 });
        // Each unit of memory holds its number; no two uses have a page in common.
        (0..server.direct.len()).for_each(|at| server.direct[at] = [at as u64, 0, 0, 0]);
        let mut frames = server.frames.clone();
        frames.sort_unstable();
        assert!(frames.iter().enumerate().all(|(at, &frame)| at == frame as usize));
        assert_eq!(frames.len(), CONNECTIONS + server.nodes + server.files);
        for (connection, key) in [(3, 5), (1023, server.files - 1)] {
            server.receive(&mut m, connection, key, connection);
            assert_eq!(server.request[0][0], server.unit(connection, 0) as u64 ^ key as u64);
            let (page, _) = server.understand(&mut m, connection, key);
            assert_eq!(page, server.index[key] as usize);
            let sent = server.sent;
            server.read(&mut m, page, 2);
            server.send(&mut m, connection);
            for k in 0..ANSWER {
                let from = server.unit(CONNECTIONS + server.nodes + page, 2 * ANSWER + k) as u64;
                assert_eq!(server.answer[(sent + k) % BUFFER], [from + 1, page as u64, 0, 0]);
                assert_eq!(server.direct[server.unit(connection, REQUEST + k)], [from + 1, page as u64, 0, 0]);
            }
        }
    }
}
