// SPDX-License-Identifier: MIT
//! Raw bindings of libkvd, the client library of kvd, a key-value store server for RDMA networks.
//!
//! Names, types and rules are those of `kvd.h`, which documents each function; the crate `kvd` is
//! the safe interface. `bindgen.sh` generates `src/bindings.rs` from that header.
//!
//! Enumerations are integers with constants ([`KVD_OK`]: [`kvd_status`]): a later library may
//! return a number that these bindings don't know. The `kvd_prep_...` functions of `kvd.h` are
//! inline functions, so they are not here: zero an operation ([`kvd_op_zeroed`]), then set its
//! fields.
//!
//! ```no_run
//! use std::ffi::CStr;
//! use std::ptr;
//!
//! let mut handle = ptr::null_mut();
//! let url = b"softnic:///run/kvd/kvd.sock\0";
//! // SAFETY: the URL is NUL-terminated, and the handle is used by one thread.
//! unsafe {
//!     if kvd_sys::kvd_open(&mut handle, url.as_ptr().cast(), ptr::null()) != kvd_sys::KVD_OK {
//!         panic!("{:?}", CStr::from_ptr(kvd_sys::kvd_error(ptr::null())));
//!     }
//!     kvd_sys::kvd_close(handle);
//! }
//! ```
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

include!("bindings.rs");

/// Returns a zeroed operation. Set its fields as the `kvd_prep_...` functions of `kvd.h` do.
pub fn kvd_op_zeroed() -> kvd_op {
    // SAFETY: zeros are valid for numbers, for pointers, and for an absent function.
    unsafe { std::mem::zeroed() }
}
