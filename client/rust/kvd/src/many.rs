// SPDX-License-Identifier: MIT
//! Many keys in one call, whose READs go out together.

use crate::error::{Error, Result};
use crate::item::Item;
use crate::read::item_zeroed;
use crate::{sys, Client};
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// The result of one of many lookups.
fn item_of(status: sys::kvd_status, item: &sys::kvd_item) -> Result<Option<Item>> {
    match status {
        sys::KVD_OK => Ok(Some(Item::new(item))),
        sys::KVD_NOT_FOUND => Ok(None),
        _ => Err(Error::of_status(status, item.value_len)),
    }
}

/// One GET of [`Client::get_many`]: a key, a buffer and, afterwards, the result.
#[repr(transparent)]
pub struct GetRequest<'a> {
    raw: sys::kvd_get_request,
    borrowed: PhantomData<(&'a [u8], &'a mut [u8])>,
}

// SAFETY: a request is a shared key and an exclusively borrowed buffer, which may be sent.
unsafe impl Send for GetRequest<'_> {}
// SAFETY: through a shared reference, key and buffer are only read.
unsafe impl Sync for GetRequest<'_> {}

impl<'a> GetRequest<'a> {
    /// A GET of `key` to `value`.
    pub fn new<K: AsRef<[u8]> + ?Sized>(key: &'a K, value: &'a mut [u8]) -> Self {
        let key = key.as_ref();
        GetRequest {
            raw: sys::kvd_get_request {
                key: key.as_ptr().cast(),
                key_len: key.len(),
                value: value.as_mut_ptr().cast(),
                value_size: value.len(),
                status: sys::KVD_NOT_FOUND,
                item: item_zeroed(),
            },
            borrowed: PhantomData,
        }
    }

    /// What [`Client::get_into`] would have returned; `None` before the call.
    ///
    /// # Errors
    ///
    /// As [`Client::get_into`].
    pub fn item(&self) -> Result<Option<Item>> {
        item_of(self.raw.status, &self.raw.item)
    }

    /// The bytes that were read; `None`: the key does not exist.
    ///
    /// # Errors
    ///
    /// As [`Client::get_into`].
    pub fn value(&self) -> Result<Option<&[u8]>> {
        Ok(self.item()?.map(|item| {
            // SAFETY: the buffer is borrowed as long as self, and has that many bytes.
            unsafe { std::slice::from_raw_parts(self.raw.value.cast(), item.value_len) }
        }))
    }
}

impl fmt::Debug for GetRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GetRequest").field(&self.item()).finish()
    }
}

/// One range of [`Client::get_ranges`]: a key, an offset, a buffer and, afterwards, the result.
#[repr(transparent)]
pub struct RangeRequest<'a> {
    raw: sys::kvd_range,
    borrowed: PhantomData<(&'a [u8], &'a mut [u8])>,
}

// SAFETY: as of a GetRequest.
unsafe impl Send for RangeRequest<'_> {}
// SAFETY: as of a GetRequest.
unsafe impl Sync for RangeRequest<'_> {}

impl<'a> RangeRequest<'a> {
    /// The range of the value of `key` from the byte `offset` on, as long as `value`.
    pub fn new<K: AsRef<[u8]> + ?Sized>(key: &'a K, offset: usize, value: &'a mut [u8]) -> Self {
        let key = key.as_ref();
        RangeRequest {
            raw: sys::kvd_range {
                key: key.as_ptr().cast(),
                key_len: key.len(),
                offset,
                value: value.as_mut_ptr().cast(),
                value_size: value.len(),
                status: sys::KVD_NOT_FOUND,
                item: item_zeroed(),
            },
            borrowed: PhantomData,
        }
    }

    /// What [`Client::get_range_into`] would have returned; `None` before the call.
    ///
    /// # Errors
    ///
    /// As [`Client::get_range_into`].
    pub fn item(&self) -> Result<Option<Item>> {
        item_of(self.raw.status, &self.raw.item)
    }

    /// The bytes that were read; `None`: the key does not exist.
    ///
    /// # Errors
    ///
    /// As [`Client::get_range_into`].
    pub fn value(&self) -> Result<Option<&[u8]>> {
        Ok(self.item()?.map(|item| {
            let len = item.range_len(self.raw.offset, self.raw.value_size);
            if len == 0 {
                return &[][..];
            }
            // SAFETY: the buffer is borrowed as long as self, and has that many bytes.
            unsafe { std::slice::from_raw_parts(self.raw.value.cast(), len) }
        }))
    }
}

impl fmt::Debug for RangeRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RangeRequest").field(&self.item()).finish()
    }
}

fn keys_raw<K: AsRef<[u8]>>(keys: &[K]) -> Vec<sys::kvd_key> {
    keys.iter()
        .map(|key| {
            let key = key.as_ref();
            sys::kvd_key { key: key.as_ptr().cast(), key_len: key.len() }
        })
        .collect()
}

impl Client {
    /// Does all these GETs with their READs posted together, 32 at a time: many take little longer
    /// than one. Each GET has its own result: [`GetRequest::value`]. The results are no snapshot.
    ///
    /// ```no_run
    /// # fn main() -> kvd::Result<()> {
    /// # let db = kvd::Client::open("softnic:///run/kvd/kvd.sock")?;
    /// let mut values = [[0; 100]; 2];
    /// let mut requests: Vec<_> = ["name", "city"]
    ///     .iter()
    ///     .zip(&mut values)
    ///     .map(|(key, value)| kvd::GetRequest::new(key, value))
    ///     .collect();
    /// db.get_many(&mut requests)?;
    /// for request in &requests {
    ///     println!("{:?}", request.value()?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`], [`Error::Disconnected`], [`Error::Device`], [`Error::Protocol`],
    /// [`Error::Auth`]: not all GETs were done; those that were not have the error, too.
    pub fn get_many(&self, requests: &mut [GetRequest<'_>]) -> Result<()> {
        // SAFETY: the requests are transparent, and what they point to is borrowed.
        self.check(unsafe {
            sys::kvd_get_many(self.as_raw(), requests.as_mut_ptr().cast(), requests.len())
        })
    }

    /// Reads all these ranges as [`Client::get_many`] does GETs: of any keys, 32 at a time. Each has
    /// its own result, of one version of its value: [`RangeRequest::value`].
    ///
    /// # Errors
    ///
    /// As [`Client::get_many`].
    pub fn get_ranges(&self, requests: &mut [RangeRequest<'_>]) -> Result<()> {
        // SAFETY: the requests are transparent, and what they point to is borrowed.
        self.check(unsafe {
            sys::kvd_get_ranges(self.as_raw(), requests.as_mut_ptr().cast(), requests.len())
        })
    }

    /// Whether `key` exists, and what is stored with its value. Does not read the value.
    ///
    /// # Errors
    ///
    /// As [`Client::get`].
    pub fn exists(&self, key: impl AsRef<[u8]>) -> Result<Option<Item>> {
        match self.exists_many(&[key])?.pop() {
            Some(found) => found,
            None => Ok(None),
        }
    }

    /// Looks up whether each key exists, without reading values, by short READs, 32 in a round
    /// trip. Each answer is as certain as that of [`Client::get`].
    ///
    /// # Errors
    ///
    /// As [`Client::get_many`]. Only a key that is empty or too long has [`Error::Invalid`].
    pub fn exists_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Result<Option<Item>>>> {
        let raw = keys_raw(keys);
        let mut results: Vec<MaybeUninit<sys::kvd_exists>> = Vec::new();
        results.resize_with(raw.len(), MaybeUninit::zeroed);
        // SAFETY: keys and results are valid during the call. Zeros are a valid result.
        let status = unsafe {
            sys::kvd_exists_many(
                self.as_raw(),
                raw.as_ptr(),
                raw.len(),
                results.as_mut_ptr().cast(),
                std::ptr::null_mut(),
            )
        };
        self.check(status)?;
        let result = |exists: &MaybeUninit<sys::kvd_exists>| {
            // SAFETY: the result was zeroed before the call filled it.
            let exists = unsafe { exists.assume_init_ref() };
            match exists.status {
                sys::KVD_OK => Ok(Some(Item::new(&exists.item))),
                sys::KVD_NOT_FOUND => Ok(None),
                status => Err(Error::of_status(status, 0)),
            }
        };
        Ok(results.iter().map(result).collect())
    }

    /// How many of the keys exist before the first that does not: for a sequence in which a key is
    /// useful only if all earlier ones exist.
    ///
    /// # Errors
    ///
    /// As [`Client::exists_many`].
    pub fn exists_leading<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize> {
        let raw = keys_raw(keys);
        let mut leading = 0;
        // SAFETY: as above.
        let status = unsafe {
            sys::kvd_exists_leading(self.as_raw(), raw.as_ptr(), raw.len(), &mut leading)
        };
        self.check(status).map(|()| leading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_result_of_its_own() {
        let mut value = *b"value";
        let mut request = GetRequest::new("key", &mut value);
        assert_eq!((request.raw.key_len, request.raw.value_size), (3, 5));
        assert_eq!(request.item(), Ok(None), "before the call");
        request.raw.item = sys::kvd_item { value_len: 3, version: 2, flags: 3, expires_s: 4 };
        request.raw.status = sys::KVD_OK;
        assert_eq!(request.item(), Ok(Some(Item::new(&request.raw.item))));
        assert_eq!(request.value(), Ok(Some(&b"val"[..])));
        request.raw.status = sys::KVD_ERR_BUFFER;
        assert!(matches!(request.value(), Err(Error::Buffer { needed: 3, .. })));
        request.raw.status = sys::KVD_ERR_TIMEOUT;
        assert!(matches!(request.item(), Err(Error::Timeout(_))));
    }
}
