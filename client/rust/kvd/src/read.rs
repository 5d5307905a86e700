// SPDX-License-Identifier: MIT
//! GETs, one at a time: to the caller's buffer, or to newly allocated memory.

use crate::client::SCRATCH_BYTES;
use crate::error::{Error, Result};
use crate::item::{seconds, Item, Value};
use crate::{sys, Client};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::raw::c_void;
use std::time::Duration;

/// How often a GET may find that the value has grown since the last try.
const GROWTHS_MAX: u32 = 16;

pub(crate) fn item_zeroed() -> sys::kvd_item {
    sys::kvd_item { value_len: 0, version: 0, flags: 0, expires_s: 0 }
}

impl Client {
    /// Reads the value of `key`; `None`: the key does not exist, which is a verified fact.
    ///
    /// A value up to 4 KiB is copied to memory of its length. A longer one is read twice, since
    /// its length is not known in advance: [`Client::get_into`] is faster for it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] (the key is empty or longer than 1,024 bytes), [`Error::NoMemory`],
    /// [`Error::Busy`] (a long value kept changing), [`Error::Timeout`], [`Error::Disconnected`],
    /// [`Error::Device`], [`Error::Protocol`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.read(|value, size, item| {
            // SAFETY: the handle is this thread's; the memory is valid during the call.
            unsafe {
                sys::kvd_get(self.as_raw(), key.as_ptr().cast(), key.len(), value, size, item)
            }
        })
    }

    /// As [`Client::get`], but to the start of `value`: [`Item::value_len`] bytes. In memory of
    /// [`Client::alloc`] or [`Client::register`] the device writes a value longer than 4 KiB
    /// directly, without a copy.
    ///
    /// The content of `value` is undefined after an error, and bytes after the value may be
    /// overwritten.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], and [`Error::Buffer`]: the value is longer than `value`.
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut [u8]) -> Result<Option<Item>> {
        let (key, mut item) = (key.as_ref(), item_zeroed());
        // SAFETY: as above. Nothing writes to `value` after the call.
        let status = unsafe {
            sys::kvd_get(
                self.as_raw(),
                key.as_ptr().cast(),
                key.len(),
                value.as_mut_ptr().cast(),
                value.len(),
                &mut item,
            )
        };
        self.looked_up(status, &item)
    }

    /// As [`Client::get_into`], but the value goes to several pieces (64 at most), one after
    /// another.
    ///
    /// # Errors
    ///
    /// As [`Client::get_into`], and [`Error::Invalid`]: there are too many pieces.
    pub fn get_into_vectored(
        &self,
        key: impl AsRef<[u8]>,
        pieces: &mut [IoSliceMut<'_>],
    ) -> Result<Option<Item>> {
        let (key, mut item) = (key.as_ref(), item_zeroed());
        let count = pieces_count(pieces.len())?;
        // SAFETY: as above; an IoSliceMut is an iovec by its definition.
        let status = unsafe {
            sys::kvd_getv(
                self.as_raw(),
                key.as_ptr().cast(),
                key.len(),
                pieces.as_ptr().cast(),
                count,
                &mut item,
            )
        };
        self.looked_up(status, &item)
    }

    /// Reads `length` bytes of the value from the byte `offset` on, as far as the value has them;
    /// [`Value::item`] is about the whole value. Of a long value only the pieces of 64 KiB that the
    /// range touches are read.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: usize,
        length: usize,
    ) -> Result<Option<Value>> {
        let mut data: Vec<u8> = Vec::new();
        let length = length.min(sys::KVD_VALUE_MAX as usize);
        data.try_reserve_exact(length)
            .map_err(|_| Error::NoMemory(format!("no memory for a range of {length} bytes")))?;
        data.resize(length, 0);
        Ok(self.get_range_into(key, offset, &mut data)?.map(|item| {
            data.truncate(item.range_len(offset, length));
            Value { data, item }
        }))
    }

    /// As [`Client::get_range`], but to the start of `value`, whose length is the range's:
    /// [`Item::range_len`] bytes. In memory of [`Client::alloc`] or [`Client::register`] nothing
    /// is copied. The content of `value` is undefined after an error, and bytes after the range may
    /// be overwritten.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn get_range_into(
        &self,
        key: impl AsRef<[u8]>,
        offset: usize,
        value: &mut [u8],
    ) -> Result<Option<Item>> {
        let (key, mut item) = (key.as_ref(), item_zeroed());
        // SAFETY: as above. Nothing writes to `value` after the call.
        let status = unsafe {
            sys::kvd_get_range(
                self.as_raw(),
                key.as_ptr().cast(),
                key.len(),
                offset,
                value.as_mut_ptr().cast(),
                value.len(),
                &mut item,
            )
        };
        self.looked_up(status, &item)
    }

    /// As [`Client::get`], but asks the server instead of reading its memory.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn get_by_request(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.read(|value, size, item| {
            // SAFETY: as above.
            unsafe {
                let (handle, key_len) = (self.as_raw(), key.len());
                sys::kvd_get_by_request(handle, key.as_ptr().cast(), key_len, value, size, item)
            }
        })
    }

    /// Reads the value and, at the same instant, sets its time to live; `None`: no expiry.
    ///
    /// # Errors
    ///
    /// As [`Client::get`], and [`Error::Invalid`]: the time is 0 or longer than 34 years. With
    /// [`Error::NoMemory`] and, for a long value, [`Error::Busy`] the time was set nevertheless.
    pub fn get_and_touch(
        &self,
        key: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<Option<Value>> {
        let (key, ttl_s) = (key.as_ref(), seconds(ttl, "time to live")?);
        self.read(|value, size, item| {
            // SAFETY: as above.
            unsafe {
                let (handle, key_len) = (self.as_raw(), key.len());
                let key = key.as_ptr().cast();
                sys::kvd_get_and_touch(handle, key, key_len, ttl_s, value, size, item)
            }
        })
    }

    /// Calls `call` with a buffer, and again with a larger one while the buffer is too small.
    fn read(
        &self,
        call: impl Fn(*mut c_void, usize, *mut sys::kvd_item) -> sys::kvd_status,
    ) -> Result<Option<Value>> {
        let mut item = item_zeroed();
        // The buffer is in use if a tracer calls this during a GET of its client.
        let mut scratch = self.scratch.try_borrow_mut().map_err(|_| {
            Error::invalid("calls of a tracer on the client that it traces are refused")
        })?;
        let mut status = call(scratch.as_mut_ptr().cast(), SCRATCH_BYTES, &mut item);
        if status == sys::KVD_OK {
            let data = scratch[..item.value_len].to_vec();
            return Ok(Some(Value { data, item: Item::new(&item) }));
        }
        for _ in 0..GROWTHS_MAX {
            if status != sys::KVD_ERR_BUFFER {
                break;
            }
            let mut data: Vec<u8> = Vec::new();
            let needed = item.value_len;
            data.try_reserve_exact(needed)
                .map_err(|_| Error::NoMemory(format!("no memory for a value of {needed} bytes")))?;
            let room: &mut [MaybeUninit<u8>] = data.spare_capacity_mut();
            status = call(room.as_mut_ptr().cast(), room.len(), &mut item);
            if status == sys::KVD_OK {
                // SAFETY: that many bytes were written.
                unsafe { data.set_len(item.value_len) };
                return Ok(Some(Value { data, item: Item::new(&item) }));
            }
        }
        self.looked_up(status, &item).map(|_| None)
    }
}

pub(crate) fn pieces_count(count: usize) -> Result<u32> {
    // libkvd refuses a number above its limit.
    u32::try_from(count).map_err(|_| Error::invalid(format!("{count} pieces: 64 are allowed")))
}
