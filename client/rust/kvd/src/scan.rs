// SPDX-License-Identifier: MIT
//! Scans of the store's keys.

use crate::error::{Error, Result};
use crate::item::Item;
use crate::{sys, Client};
use std::any::Any;
use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::os::raw::{c_int, c_void};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::slice;

/// What a scan delivers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanArgs {
    /// Deliver only keys that begin with this prefix.
    pub prefix: Vec<u8>,
    /// The most keys in one request; 0: as many as fit a message.
    pub count: u32,
    /// Deliver values, too, if they fit a message.
    pub values: bool,
}

impl ScanArgs {
    /// The result points into `self`.
    pub(crate) fn as_raw(&self) -> sys::kvd_scan_args {
        sys::kvd_scan_args {
            prefix: self.prefix.as_ptr().cast(),
            prefix_len: self.prefix.len(),
            count: self.count,
            values: self.values.into(),
        }
    }
}

/// The place where a scan continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Cursor(u64);

impl Cursor {
    /// The start of a scan; the cursor has this value again when the scan is complete.
    pub const START: Cursor = Cursor(0);

    /// The cursor with a number that [`Cursor::number`] returned.
    pub fn new(number: u64) -> Cursor {
        Cursor(number)
    }

    /// A number to store; 0 is [`Cursor::START`].
    pub fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn as_raw(&mut self) -> *mut u64 {
        &mut self.0
    }
}

/// A key that a scan delivers, valid only in the function that gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The key's value; `None`: not requested, or too long for a message.
    pub value: Option<&'a [u8]>,
    /// What is stored with the value.
    pub item: Item,
}

/// A key that [`Client::scan`] delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedEntry {
    /// The key.
    pub key: Vec<u8>,
    /// The key's value; `None`: not requested, or too long for a message: use [`Client::get`].
    pub value: Option<Vec<u8>>,
    /// What is stored with the value.
    pub item: Item,
}

impl From<Entry<'_>> for OwnedEntry {
    fn from(entry: Entry<'_>) -> Self {
        OwnedEntry {
            key: entry.key.to_vec(),
            value: entry.value.map(<[u8]>::to_vec),
            item: entry.item,
        }
    }
}

/// The function that the library calls for each key, and its result.
struct Visit<F> {
    each: F,
    panic: Option<Box<dyn Any + Send>>,
}

/// # Safety
///
/// `arg` is a Visit<F>, and `entry` is valid.
unsafe extern "C" fn visit<F>(arg: *mut c_void, entry: *const sys::kvd_entry) -> c_int
where
    F: FnMut(Entry<'_>) -> ControlFlow<()>,
{
    let (state, entry) = (&mut *arg.cast::<Visit<F>>(), &*entry);
    let value = (!entry.value.is_null())
        .then(|| slice::from_raw_parts(entry.value.cast(), entry.item.value_len));
    let found = Entry {
        key: slice::from_raw_parts(entry.key.cast(), entry.key_len),
        value,
        item: Item::new(&entry.item),
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
    fn scan_raw<F>(&self, cursor: &mut Cursor, args: &ScanArgs, each: F) -> Result<()>
    where
        F: FnMut(Entry<'_>) -> ControlFlow<()>,
    {
        let raw = args.as_raw();
        let mut state = Visit { each, panic: None };
        // SAFETY: the function gets the state of its own type, during the call only.
        let status = unsafe {
            let arg = (&mut state as *mut Visit<F>).cast();
            sys::kvd_scan(self.as_raw(), &mut cursor.0, &raw, Some(visit::<F>), arg)
        };
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        self.check(status)
    }

    /// Asks the server for some of its keys, by one request, and calls `each` for each of them, in
    /// no particular order. A scan starts with [`Cursor::START`] and is complete when the cursor is
    /// [`Cursor::START`] again. A call may deliver nothing although the scan is not complete.
    ///
    /// A key that exists from the first call to the last is delivered at least once; any key may be
    /// delivered more than once. If `each` breaks (or panics), the rest of this call's keys is not
    /// delivered, and the cursor stays: the next call delivers all of them again.
    ///
    /// `each` can't use the client, which is exclusively borrowed:
    ///
    /// ```compile_fail,E0502
    /// # use std::ops::ControlFlow;
    /// # fn main() -> kvd::Result<()> {
    /// # let mut db = kvd::Client::open("softnic:///run/kvd/kvd.sock")?;
    /// let mut cursor = kvd::Cursor::START;
    /// let args = kvd::ScanArgs::default();
    /// db.scan_some(&mut cursor, &args, |entry| { // error: what it calls has borrowed the client
    ///     let _ = db.delete(entry.key);
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: that part of the index kept changing for a second; the cursor stays, and
    /// nothing was delivered. [`Error::Invalid`]: the prefix is too long. [`Error::Timeout`],
    /// [`Error::Disconnected`], [`Error::Device`], [`Error::Protocol`].
    pub fn scan_some<F>(&mut self, cursor: &mut Cursor, args: &ScanArgs, each: F) -> Result<()>
    where
        F: FnMut(Entry<'_>) -> ControlFlow<()>,
    {
        self.scan_raw(cursor, args, each)
    }

    /// All keys that `args` select, in no particular order, by as many requests as needed; see
    /// [`Client::scan_some`]. An error ends the scan.
    ///
    /// ```no_run
    /// # fn main() -> kvd::Result<()> {
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock")?;
    /// let users = kvd::ScanArgs { prefix: b"user".to_vec(), ..Default::default() };
    /// for entry in db.scan(users) {
    ///     println!("{}", String::from_utf8_lossy(&entry?.key));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self, args: ScanArgs) -> Scan<'_> {
        Scan { client: self, args, cursor: Some(Cursor::START), found: VecDeque::new() }
    }
}

/// The keys of [`Client::scan`].
#[derive(Debug)]
pub struct Scan<'a> {
    client: &'a Client,
    args: ScanArgs,
    cursor: Option<Cursor>, // None: complete, or failed
    found: VecDeque<OwnedEntry>,
}

impl Iterator for Scan<'_> {
    type Item = Result<OwnedEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.found.pop_front() {
                return Some(Ok(entry));
            }
            let mut cursor = self.cursor.take()?;
            let found = &mut self.found;
            let result = self.client.scan_raw(&mut cursor, &self.args, |entry| {
                found.push_back(entry.into());
                ControlFlow::Continue(())
            });
            if let Err(error) = result {
                return Some(Err(error));
            }
            self.cursor = Some(cursor).filter(|&cursor| cursor != Cursor::START);
        }
    }
}

impl FusedIterator for Scan<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn each_argument_has_an_effect_alone() {
        let raw = |args: &ScanArgs| {
            let raw = args.as_raw();
            (raw.prefix_len, raw.count, raw.values)
        };
        let args = ScanArgs { prefix: b"abc".to_vec(), ..Default::default() };
        assert_eq!(raw(&args), (3, 0, 0));
        assert_eq!(args.as_raw().prefix, args.prefix.as_ptr().cast());
        assert_eq!(raw(&ScanArgs { count: 7, ..Default::default() }), (0, 7, 0));
        assert_eq!(raw(&ScanArgs { values: true, ..Default::default() }), (0, 0, 1));
    }

    #[test]
    fn entries_are_visited_until_the_function_breaks_or_panics() {
        fn say<F>(each: F, raw: &sys::kvd_entry) -> (c_int, bool)
        where
            F: FnMut(Entry<'_>) -> ControlFlow<()>,
        {
            let mut state = Visit { each, panic: None };
            // SAFETY: it is the state of its own type.
            let stop = unsafe { visit::<F>((&mut state as *mut Visit<F>).cast(), raw) };
            (stop, state.panic.is_some())
        }
        let mut raw = sys::kvd_entry {
            key: b"key".as_ptr().cast(),
            key_len: 3,
            value: b"value and more".as_ptr().cast(),
            item: sys::kvd_item { value_len: 5, version: 2, flags: 3, expires_s: 4 },
        };
        let mut seen = Vec::new();
        let mut keep = |entry: Entry<'_>| {
            seen.push(OwnedEntry::from(entry));
            ControlFlow::Continue(())
        };
        assert_eq!(say(&mut keep, &raw), (0, false));
        raw.value = ptr::null();
        assert_eq!(say(&mut keep, &raw), (0, false));
        assert_eq!(say(|_| ControlFlow::Break(()), &raw), (1, false));
        assert_eq!(say(|_| resume_unwind(Box::new("prints nothing")), &raw), (1, true));
        let item = Item::new(&raw.item);
        let value = Some(b"value".to_vec());
        let with = OwnedEntry { key: b"key".to_vec(), value, item };
        assert_eq!(seen, [with.clone(), OwnedEntry { value: None, ..with }]);
    }
}
