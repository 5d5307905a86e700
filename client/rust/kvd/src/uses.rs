// SPDX-License-Identifier: MIT
//! Scans of how the store's keys were used.

use crate::error::Result;
use crate::item::Item;
use crate::scan::{Cursor, ScanArgs};
use crate::{sys, Client};
use std::any::Any;
use std::ops::ControlFlow;
use std::os::raw::{c_int, c_void};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::slice;

/// The record of a key's use that the server keeps for eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Use {
    /// A normal key.
    Normal {
        /// About how many uses the server has learned of since the key was stored: 2ⁿ - 1, at most
        /// 32767. Halves with each quarter of the server's memory that was added since the last
        /// use.
        uses: u32,
        /// Bytes added to the store since the last use, or since the key was stored, in percent of
        /// the store's item memory; wraps to 0 after 1599.
        age: u32,
    },
    /// A key of low priority.
    Low {
        /// As for a normal key, but always since it was stored; wraps to 0 after 12799.
        age: u32,
    },
    /// The server keeps no record of uses of the key.
    Pinned,
    /// A kind of a later version of libkvd: its number.
    Other(u32),
}

impl Use {
    fn of_raw(used: &sys::kvd_used) -> Use {
        match used.use_ {
            sys::KVD_USE_NORMAL => Use::Normal { uses: used.uses, age: used.age },
            sys::KVD_USE_LOW => Use::Low { age: used.age },
            sys::KVD_USE_PINNED => Use::Pinned,
            kind => Use::Other(kind),
        }
    }
}

/// A key that [`Client::scan_uses_some`] delivers, valid only in the function that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Used<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What is stored with its value.
    pub item: Item,
    /// How the key was used.
    pub usage: Use,
}

/// The function that the library calls for each key, and its result.
struct Visit<F> {
    each: F,
    panic: Option<Box<dyn Any + Send>>,
}

/// # Safety
///
/// `arg` is a Visit<F>, and `used` is valid.
unsafe extern "C" fn visit<F>(arg: *mut c_void, used: *const sys::kvd_used) -> c_int
where
    F: FnMut(Used<'_>) -> ControlFlow<()>,
{
    let (state, used) = (&mut *arg.cast::<Visit<F>>(), &*used);
    let found = Used {
        key: slice::from_raw_parts(used.key.cast(), used.key_len),
        item: Item::new(&used.item),
        usage: Use::of_raw(used),
    };
    // A panic must not unwind through the library: it resumes after the call.
    match catch_unwind(AssertUnwindSafe(|| (state.each)(found))) {
        Ok(ControlFlow::Continue(())) => 0,
        Ok(ControlFlow::Break(())) => 1,
        Err(panic) => {
            state.panic = Some(panic);
            1
        }
    }
}

impl Client {
    /// As [`Client::scan_some`], but delivers how keys were used, without values. Only a server
    /// that evicts records uses. A scan does not count as a use.
    ///
    /// The server does not see GETs by READ. Clients report a sample: at most one hit in
    /// [`Info::access_rate`](crate::Info::access_rate). So the uses are estimates.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid): the server does not evict, or `args.values` is
    /// set. Else as [`Client::scan_some`].
    pub fn scan_uses_some<F>(&mut self, cursor: &mut Cursor, args: &ScanArgs, each: F) -> Result<()>
    where
        F: FnMut(Used<'_>) -> ControlFlow<()>,
    {
        let raw = args.as_raw();
        let mut state = Visit { each, panic: None };
        // SAFETY: the function gets the state of its own type, during the call only.
        let status = unsafe {
            let arg = (&mut state as *mut Visit<F>).cast();
            sys::kvd_scan_uses(self.as_raw(), cursor.as_raw(), &raw, Some(visit::<F>), arg)
        };
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        self.check(status)
    }
}
