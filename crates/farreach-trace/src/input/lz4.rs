//! LZ4 frames, one behind the other.

use std::io::{self, BufRead, ErrorKind, Read};

use lz4_flex::frame::FrameDecoder;

/// The decoder takes any end of the file for the end of a frame, and stops behind the first frame. This reader detects
/// a frame that is cut, and goes on to the next.
pub(super) struct Lz4<R: BufRead> {
    frame: FrameDecoder<Watched<R>>,
    over: bool,
}

/// A stream that records whether a read reached its end.
struct Watched<R> {
    from: R,
    dry: bool,
}

impl<R: BufRead> Lz4<R> {
    pub fn new(from: R) -> Lz4<R> {
        Lz4 { frame: FrameDecoder::new(Watched { from, dry: false }), over: false }
    }
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.over && !out.is_empty() {
            let made = self.frame.read(out)?;
            if made > 0 {
                return Ok(made);
            }
            let stream = self.frame.get_mut();
            if stream.dry {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            // The frame has ended. Another one begins, or the file ends.
            self.over = stream.from.fill_buf()?.is_empty();
        }
        Ok(0)
    }
}

impl<R: BufRead> Read for Watched<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(out)?;
        self.dry |= got == 0 && !out.is_empty();
        Ok(got)
    }
}
