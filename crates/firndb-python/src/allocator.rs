//! The allocator of everything that is not an extent.
//!
//! mimalloc 3 keeps what was freed for a second before the operating system gets it back, and looks at the clock only when it allocates. In a process
//! that does other things between statements this second may last for ever, so the delay is that of mimalloc 2.

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, in milliseconds; the crate has no name for it.
const PURGE_DELAY: mi_option_t = 15;

/// Sets what the environment (`MIMALLOC_PURGE_DELAY`) does not.
pub(crate) fn configure() {
    // SAFETY: stores a number in a table that the option's number is within (the linked version's header has it); called while the module is
    // initialised, which the interpreter's lock guards.
    unsafe { mi_option_set_default(PURGE_DELAY, 10) };
    firndb::set_trim(trim);
}

fn trim() {
    // SAFETY: may be called at any time on any thread.
    unsafe { mi_collect(true) };
}
