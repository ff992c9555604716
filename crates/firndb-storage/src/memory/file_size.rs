//! The process's limit on the size of files (RLIMIT_FSIZE), for the database file, its log and the arena's memory files.
//!
//! The system sends SIGXFSZ to a thread that goes beyond it, which ends a process that did not prepare for that; whether it did is not for a library to decide. So
//! whoever makes a file longer asks here before, and threads of our own block the signal: then the same write fails with EFBIG.

use std::io::{Error, Result};

/// Refuses a file that ends at a byte beyond the limit.
pub fn check(end: u64) -> Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` lives through the call.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    match is_known && limit.rlim_cur != libc::RLIM_INFINITY && end > limit.rlim_cur {
        true => Err(Error::from_raw_os_error(libc::EFBIG)),
        false => Ok(()),
    }
}

/// Blocks SIGXFSZ in the calling thread, which is one of ours: it writes files that are not the database's, too.
pub fn block_signal() {
    // SAFETY: the set is initialized before it is used, and lives through the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}
