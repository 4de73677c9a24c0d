//! Where a tracker's thread waits: for a time, or until somebody wakes it.
//!
//! To wake up is most of what a sample costs. A thread that parks has a timer of its own, which is exact. Timeouts of sockets are kept
//! by the tick of the kernel: they are late by up to two of its ticks, a hundredth of a second or two, and a wake-up costs a quarter
//! less. So the thread of a tracker that can be late waits at a socket, and a byte from its other end wakes it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;
use std::time::Duration;

use self::socket::Socket;

/// From this interval on a sample may be late.
const MAY_BE_LATE: Duration = Duration::from_millis(100);
/// What is to come sooner is parked for, and so is what is to come later than that: then it is more likely that somebody wakes the
/// thread before, which costs less where it parks.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(1);

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
const AT_SOCKET: u8 = 2;
/// Somebody wants it to be awake, and need not wake it again before it waits.
const WOKEN: u8 = 3;

#[derive(Debug)]
pub(super) struct Rest {
    state: AtomicU8,
    thread: OnceLock<Thread>,
    socket: Option<Socket>,
}

impl Rest {
    /// For a thread that wakes up at this interval.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            state: AtomicU8::new(AWAKE),
            thread: OnceLock::new(),
            socket: (interval >= MAY_BE_LATE).then(Socket::new).flatten(),
        }
    }

    /// For a thread that others unpark, too.
    pub(super) fn parking() -> Self {
        Self { state: AtomicU8::new(AWAKE), thread: OnceLock::new(), socket: None }
    }

    /// Waits. Only one thread may, and it may come back earlier for no reason.
    pub(super) fn wait(&self, at_most: Duration) {
        let socket = self.socket.as_ref().filter(|_| (SOON..=LATER).contains(&at_most));
        self.thread.get_or_init(std::thread::current);
        let how = if socket.is_some() { AT_SOCKET } else { PARKED };
        let waits = self.state.compare_exchange(AWAKE, how, Ordering::AcqRel, Ordering::Acquire);
        if waits.is_ok() {
            match socket {
                Some(socket) => socket.wait(at_most),
                None => std::thread::park_timeout(at_most),
            }
        }
        self.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// Lets the thread look what there is to do, now or when it wants to wait next.
    pub(super) fn wake(&self) {
        match self.state.swap(WOKEN, Ordering::AcqRel) {
            PARKED => _ = self.thread.get().map(Thread::unpark),
            AT_SOCKET => _ = self.socket.as_ref().map(Socket::wake),
            _ => {}
        }
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod socket {
    use std::io::ErrorKind;
    use std::mem::ManuallyDrop;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixDatagram;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use runlore_core::file_system;

    /// Two ends of a socket.
    #[derive(Debug)]
    pub(super) struct Socket {
        waits: Owned,
        wakes: Owned,
        /// The timeout that is set, in milliseconds: of samples at an interval it is the same again and again.
        timeout: AtomicU64,
    }

    /// A descriptor that is left alone once it is somebody else's: a program may close all there are, and open others that
    /// get their numbers.
    #[derive(Debug)]
    struct Owned {
        end: ManuallyDrop<UnixDatagram>,
        /// Device and inode, which no other has as long as this one is open.
        identity: (u64, u64),
    }

    impl Socket {
        /// None where there are no descriptors left.
        pub(super) fn new() -> Option<Self> {
            let (waits, wakes) = UnixDatagram::pair().ok()?;
            wakes.set_nonblocking(true).ok()?;
            let (waits, wakes) = (Owned::new(waits)?, Owned::new(wakes)?);
            Some(Self { waits, wakes, timeout: AtomicU64::new(0) })
        }

        pub(super) fn wait(&self, at_most: Duration) {
            let waited = self.waits.get().and_then(|end| {
                let timeout = u64::try_from(at_most.as_millis()).ok()? + 1;
                if self.timeout.load(Ordering::Relaxed) != timeout {
                    end.set_read_timeout(Some(Duration::from_millis(timeout))).ok()?;
                    self.timeout.store(timeout, Ordering::Relaxed);
                }
                // Whether a byte came or the time was over, it has waited. A byte that comes too late ends the next wait.
                match end.recv(&mut [0]).map_err(|error| error.kind()) {
                    Ok(_) | Err(ErrorKind::WouldBlock | ErrorKind::Interrupted) => Some(()),
                    Err(_) => None,
                }
            });
            if waited.is_none() {
                // Nobody can wake it here.
                std::thread::park_timeout(at_most.min(super::SOON));
            }
        }

        pub(super) fn wake(&self) {
            if let Some(end) = self.wakes.get() {
                // Where there is no room for a byte, there is one.
                _ = end.send(&[0]);
            }
        }
    }

    #[cfg(test)]
    impl Socket {
        pub(super) fn numbers(&self) -> [i32; 2] {
            [self.waits.end.as_raw_fd(), self.wakes.end.as_raw_fd()]
        }
    }

    impl Owned {
        fn new(end: UnixDatagram) -> Option<Self> {
            let identity = identity(&end)?;
            Some(Self { end: ManuallyDrop::new(end), identity })
        }

        /// The end, if the descriptor is still its own.
        fn get(&self) -> Option<&UnixDatagram> {
            (identity(&self.end) == Some(self.identity)).then_some(&*self.end)
        }
    }

    fn identity(end: &UnixDatagram) -> Option<(u64, u64)> {
        file_system::status(end.as_raw_fd()).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            if self.get().is_some() {
                // SAFETY: this is the end of it, and nobody takes it out elsewhere.
                unsafe { ManuallyDrop::drop(&mut self.end) };
            }
        }
    }
}

/// Other systems have not been measured.
#[cfg(not(target_os = "linux"))]
mod socket {
    use std::convert::Infallible;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Socket(Infallible);

    impl Socket {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn wait(&self, _at_most: Duration) {
            match self.0 {}
        }

        pub(super) fn wake(&self) {
            match self.0 {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    const ROUNDS: usize = 2000;

    fn rests() -> [Rest; 2] {
        [Rest::new(MAY_BE_LATE), Rest::parking()]
    }

    #[test]
    fn who_waits_is_woken_whenever_that_is_asked_for() {
        for rest in rests().map(Arc::new) {
            let (tells, told) = mpsc::channel();
            let waiting = Arc::clone(&rest);
            let thread = std::thread::spawn(move || {
                let mut unheard = 0;
                for _ in 0..ROUNDS {
                    let began = Instant::now();
                    waiting.wait(LATER);
                    unheard += usize::from(began.elapsed() >= LATER);
                    if unheard > ROUNDS / 100 || tells.send(()).is_err() {
                        break;
                    }
                }
            });
            for _ in 0..ROUNDS {
                rest.wake();
                // A byte from before may end a wait: then it is ahead, and this one ends the next.
                told.recv().expect("it was woken");
            }
            thread.join().unwrap();
        }
    }

    #[test]
    fn nobody_waits_for_less_than_was_asked_for() {
        for rest in rests() {
            let (began, time) = (Instant::now(), Duration::from_millis(30));
            rest.wait(time);
            assert!(began.elapsed() >= time);
            rest.wake();
            rest.wait(Duration::MAX);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[allow(unsafe_code)]
    fn a_descriptor_that_somebody_else_took_is_left_to_them() {
        use std::os::unix::net::UnixDatagram;

        let (end, other) = UnixDatagram::pair().unwrap();
        other.send(&[7]).unwrap();
        let rest = Rest::new(MAY_BE_LATE);
        let numbers = rest.socket.as_ref().unwrap().numbers();
        for number in numbers {
            use std::os::fd::AsRawFd as _;
            // SAFETY: both are open; what the second stood for is closed, as a program might do.
            assert_eq!(unsafe { libc::dup2(end.as_raw_fd(), number) }, number);
        }
        rest.wait(SOON);
        rest.state.store(AT_SOCKET, Ordering::Release);
        rest.wake();
        drop(rest);
        assert_eq!(end.read_timeout().unwrap(), None, "nobody has set it");
        let mut byte = [0];
        assert_eq!((end.recv(&mut byte).unwrap(), byte), (1, [7]), "nobody has read it");
        other.set_nonblocking(true).unwrap();
        assert!(other.recv(&mut byte).is_err(), "nobody has written to it");
        for number in numbers {
            // SAFETY: the call only asks; then what is still open is closed.
            assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "nobody has closed it");
            // SAFETY: nobody else uses the number any more.
            unsafe { libc::close(number) };
        }
    }
}
