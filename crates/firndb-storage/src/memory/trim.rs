//! Giving memory back that the allocator keeps.
//!
//! Allocators return memory when they are called again, later. A database that has freed much and then rests never calls them, so the collector does when it has
//! had nothing to do for a while, and VACUUM does at once. Which allocator it is, only the program knows.

use std::sync::OnceLock;

static TRIM: OnceLock<fn()> = OnceLock::new();

/// Says how the allocator of this program returns memory. The first call counts. The function is called on any thread, and must not use a database.
pub fn set_trim(trim: fn()) {
    // A second library that sets it has the same allocator.
    let _ = TRIM.set(trim);
}

/// Returns what can be returned.
pub(crate) fn trim() {
    if let Some(trim) = TRIM.get() {
        trim();
    }
}
