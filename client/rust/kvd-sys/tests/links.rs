// SPDX-License-Identifier: MIT
//! The library that is linked is of the version that the bindings were made from.
//!
//! (That sizes and offsets are those of the C compiler is tested in `src/bindings.rs`.)

use std::ffi::CStr;

#[test]
fn the_library_has_the_version_of_the_bindings() {
    // SAFETY: the string is static.
    let version = unsafe { CStr::from_ptr(kvd_sys::kvd_version()) };
    let minor = format!("{}.{}.", kvd_sys::KVD_VERSION_MAJOR, kvd_sys::KVD_VERSION_MINOR);
    assert!(version.to_str().unwrap().starts_with(&minor), "{version:?} is not of {minor}");
}

#[test]
fn the_crate_has_the_version_of_the_bindings() {
    let bindings = format!(
        "{}.{}.{}",
        kvd_sys::KVD_VERSION_MAJOR,
        kvd_sys::KVD_VERSION_MINOR,
        kvd_sys::KVD_VERSION_PATCH
    );
    assert_eq!(env!("CARGO_PKG_VERSION"), bindings);
}

#[test]
fn statuses_have_texts() {
    for status in [kvd_sys::KVD_OK, kvd_sys::KVD_ERR_LIMIT] {
        // SAFETY: the string is static.
        let text = unsafe { CStr::from_ptr(kvd_sys::kvd_status_text(status)) };
        assert_ne!(text.to_str().unwrap(), "unknown status", "of status {status}");
    }
}
