//! Opens files as byte streams, decompressing them if needed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use runlore_core::store::open_plain;

/// The size of the read buffers.
const CHUNK: usize = 256 * 1024;

/// A compressed file may always be decompressed up to this size …
const UNPACKED: u64 = 256 * 1024 * 1024;
/// … and above that, up to this many times its compressed size. Events never compress that well, so
/// a file that does was made to exhaust the reader.
const TIMES: u64 = 250;

pub(super) type Input = Box<dyn BufRead + Send>;

/// A file that can be read more than once.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// Whether the path must be a regular file. Set for paths that the user did not name.
    pub(super) plain: bool,
    /// The number of bytes read so far, before decompression.
    pub(super) read: Arc<AtomicU64>,
}

impl Source {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), plain: false, read: Arc::default() }
    }

    fn file(&self) -> io::Result<File> {
        if self.plain { open_plain(&self.path, false) } else { File::open(&self.path) }
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        self.file()?.metadata().map(|facts| facts.len())
    }

    pub(super) fn open(&self) -> io::Result<Input> {
        self.read.store(0, Ordering::Relaxed);
        let counted = Counted { file: self.file()?, read: self.read.clone() };
        let mut packed = BufReader::with_capacity(CHUNK, counted);
        let unpacked = |from: Box<dyn Read + Send>| -> Input {
            let bounded = Bounded { from, packed: self.read.clone(), given: 0 };
            Box::new(BufReader::with_capacity(CHUNK, bounded))
        };
        let start = packed.fill_buf()?;
        if start.starts_with(&[0x1f, 0x8b]) {
            return Ok(unpacked(Box::new(MultiGzDecoder::new(packed))));
        }
        let is_zstd = start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
            || start.get(1..4) == Some(&[0x2a, 0x4d, 0x18]) && start[0] & 0xf0 == 0x50;
        if is_zstd {
            return Ok(unpacked(Box::new(Zstd::new(packed))));
        }
        Ok(Box::new(packed))
    }
}

struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(to)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// A decompressed stream that fails when it grows out of proportion.
struct Bounded {
    from: Box<dyn Read + Send>,
    /// The number of compressed bytes read so far.
    packed: Arc<AtomicU64>,
    given: u64,
}

impl Read for Bounded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(to)?;
        self.given += length as u64;
        if self.given > UNPACKED && self.given / TIMES > self.packed.load(Ordering::Relaxed) {
            return Err(io::Error::other(format!(
                "it unpacks to more than {TIMES} times its size, as no file of events does; unpack it first to read it all the same"
            )));
        }
        Ok(length)
    }
}

type Packed = BufReader<Counted>;

/// Decompresses all frames of a zstd file in order.
struct Zstd {
    packed: Packed,
    decoder: FrameDecoder,
    is_inside: bool,
}

impl Zstd {
    fn new(packed: Packed) -> Self {
        Self { packed, decoder: FrameDecoder::new(), is_inside: false }
    }

    /// Starts the next frame, or skips it if it contains no data.
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.packed) {
            Ok(()) => self.is_inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                io::copy(&mut self.packed.by_ref().take(length.into()), &mut io::sink())?;
            }
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_inside = false;
        let said = self.decoder.get_checksum_from_data();
        if said.is_some() && said != self.decoder.get_calculated_checksum() {
            return Err(io::Error::other("what it holds is not what its checksum says"));
        }
        Ok(())
    }
}

impl Read for Zstd {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside {
                if self.packed.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin()?;
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(to);
            } else if self.decoder.is_finished() {
                self.end()?;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.packed, one).map_err(io::Error::other)?;
            }
        }
    }
}
