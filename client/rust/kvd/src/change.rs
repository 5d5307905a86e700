// SPDX-License-Identifier: MIT
//! PUT, DELETE and the other changes of a key, one at a time.

use crate::error::Result;
use crate::item::{arith_raw, seconds, Initial, PutArgs};
use crate::read::pieces_count;
use crate::{sys, Client};
use std::io::IoSlice;
use std::time::Duration;

/// The result of [`Client::incr`] and [`Client::decr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counted {
    /// The new number.
    pub number: u64,
    /// The new version of the key.
    pub version: u64,
}

type Arith = unsafe extern "C" fn(
    *mut sys::kvd,
    *const std::os::raw::c_void,
    usize,
    u64,
    *const sys::kvd_arith_args,
    *mut u64,
    *mut u64,
) -> sys::kvd_status;

impl Client {
    /// Stores `value` under `key`, whether the key exists or not, and returns its new version.
    /// Every GET by any client that starts after that returns this value or a later one.
    ///
    /// # Errors
    ///
    /// As [`Client::put_with`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<u64> {
        self.put_with(key, value, &PutArgs::default())
    }

    /// As [`Client::put`], with a condition, flags, a time to live and more in `args`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Exists`]: the condition of the mode does not hold.
    /// [`Error::TooLarge`], [`Error::NoSpace`], [`Error::Busy`]: the server can't store the value,
    /// or not now. [`Error::Invalid`]: the key is empty or longer than 1,024 bytes, or `args` break
    /// a rule. [`Error::NoMemory`], [`Error::Timeout`], [`Error::Unknown`],
    /// [`Error::Disconnected`], [`Error::Device`], [`Error::Protocol`].
    ///
    /// [`Error::NotFound`]: crate::Error::NotFound
    /// [`Error::Exists`]: crate::Error::Exists
    /// [`Error::TooLarge`]: crate::Error::TooLarge
    /// [`Error::NoSpace`]: crate::Error::NoSpace
    /// [`Error::Busy`]: crate::Error::Busy
    /// [`Error::Invalid`]: crate::Error::Invalid
    /// [`Error::NoMemory`]: crate::Error::NoMemory
    /// [`Error::Timeout`]: crate::Error::Timeout
    /// [`Error::Unknown`]: crate::Error::Unknown
    /// [`Error::Disconnected`]: crate::Error::Disconnected
    /// [`Error::Device`]: crate::Error::Device
    /// [`Error::Protocol`]: crate::Error::Protocol
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        args: &PutArgs,
    ) -> Result<u64> {
        let (key, value, args) = (key.as_ref(), value.as_ref(), args.raw()?);
        let mut version = 0;
        // SAFETY: the handle is this thread's; the library does not use the memory after the call.
        let status = unsafe {
            sys::kvd_put(
                self.as_raw(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &args,
                &mut version,
            )
        };
        self.check(status).map(|()| version)
    }

    /// As [`Client::put_with`], for a value in several pieces (64 at most), one after another.
    ///
    /// # Errors
    ///
    /// As [`Client::put_with`].
    pub fn put_vectored(
        &self,
        key: impl AsRef<[u8]>,
        pieces: &[IoSlice<'_>],
        args: &PutArgs,
    ) -> Result<u64> {
        let (key, args) = (key.as_ref(), args.raw()?);
        let count = pieces_count(pieces.len())?;
        let mut version = 0;
        // SAFETY: as above; an IoSlice is an iovec by its definition, and only read.
        let status = unsafe {
            sys::kvd_putv(
                self.as_raw(),
                key.as_ptr().cast(),
                key.len(),
                pieces.as_ptr().cast(),
                count,
                &args,
                &mut version,
            )
        };
        self.check(status).map(|()| version)
    }

    /// Removes `key`. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// As [`Client::put_with`], except those about a condition or a value.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        // SAFETY: as above.
        self.removed(unsafe { sys::kvd_delete(self.as_raw(), key.as_ptr().cast(), key.len()) })
    }

    /// Removes `key` if it has this version. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// As [`Client::delete`], and [`crate::Error::Exists`]: the key has another version.
    pub fn delete_if(&self, key: impl AsRef<[u8]>, version: u64) -> Result<bool> {
        let key = key.as_ref();
        // SAFETY: as above.
        self.removed(unsafe {
            sys::kvd_delete_if(self.as_raw(), key.as_ptr().cast(), key.len(), version)
        })
    }

    fn removed(&self, status: sys::kvd_status) -> Result<bool> {
        match status {
            sys::KVD_NOT_FOUND => Ok(false),
            _ => self.check(status).map(|()| true),
        }
    }

    /// Adds `delta` to the decimal number that is the value of `key`; wraps around at 2^64. If
    /// the key does not exist, stores `initial` unchanged.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NotFound`]: the key does not exist and `initial` is `None`.
    /// [`crate::Error::NotANumber`]: nothing was changed. Else as [`Client::put_with`].
    pub fn incr(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Counted> {
        self.arith(sys::kvd_incr, key.as_ref(), delta, initial)
    }

    /// As [`Client::incr`], but subtracts `delta`, and stops at 0.
    ///
    /// # Errors
    ///
    /// As [`Client::incr`].
    pub fn decr(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Counted> {
        self.arith(sys::kvd_decr, key.as_ref(), delta, initial)
    }

    fn arith(
        &self,
        call: Arith,
        key: &[u8],
        delta: u64,
        initial: Option<&Initial>,
    ) -> Result<Counted> {
        let args = arith_raw(initial)?;
        let (mut number, mut version) = (0, 0);
        // SAFETY: as above.
        let status = unsafe {
            call(
                self.as_raw(),
                key.as_ptr().cast(),
                key.len(),
                delta,
                &args,
                &mut number,
                &mut version,
            )
        };
        self.check(status).map(|()| Counted { number, version })
    }

    /// Sets the time to live of `key`, rounded up to seconds; `None`: the key never expires.
    /// Returns the key's version, which does not change.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NotFound`]: the key does not exist. [`crate::Error::Invalid`]: the time is
    /// 0 or longer than 34 years. Else as [`Client::delete`].
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: Option<Duration>) -> Result<u64> {
        let (key, ttl_s, mut version) = (key.as_ref(), seconds(ttl, "time to live")?, 0);
        // SAFETY: as above.
        let status = unsafe {
            sys::kvd_touch(self.as_raw(), key.as_ptr().cast(), key.len(), ttl_s, &mut version)
        };
        self.check(status).map(|()| version)
    }
}
