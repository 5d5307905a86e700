// SPDX-License-Identifier: MIT
//! Values, what is stored with them, and the arguments of changes.

use crate::error::{Error, Result};
use crate::sys;
use std::ops::Deref;
use std::time::Duration;

/// What is stored with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Item {
    /// Length of the value, in bytes.
    pub value_len: usize,
    /// Never 0. Every change gives the key a higher version, which no other item has.
    pub version: u64,
    /// Set by the PUT; no meaning to kvd.
    pub flags: u32,
    /// The second of the server's clock, since 1970, at which the key expires; `None`: never.
    pub expires_s: Option<u32>,
}

impl Item {
    /// How many bytes a range of `size` bytes from `offset` on has of the value: fewer where the
    /// value ends before, and none if it ends at `offset` or before.
    #[must_use]
    pub fn range_len(&self, offset: usize, size: usize) -> usize {
        size.min(self.value_len.saturating_sub(offset))
    }

    pub(crate) fn new(raw: &sys::kvd_item) -> Item {
        Item {
            value_len: raw.value_len,
            version: raw.version,
            flags: raw.flags,
            expires_s: Some(raw.expires_s).filter(|&second| second != 0),
        }
    }
}

/// A value that was read, with what is stored with it. Derefs to the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Value {
    /// The bytes.
    pub data: Vec<u8>,
    /// What is stored with the value.
    pub item: Item,
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.data
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.data
    }
}

/// What a PUT does, depending on whether the key exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PutMode {
    /// Stores the value in any case.
    #[default]
    Set,
    /// Stores the value only if the key does not exist; else [`Error::Exists`].
    IfAbsent,
    /// Stores the value only if the key exists; else [`Error::NotFound`].
    IfPresent,
    /// Stores the value only if the key has this version; else [`Error::Exists`] or
    /// [`Error::NotFound`].
    IfVersion(u64),
    /// Adds the value after the existing one; [`Error::NotFound`] if there is none.
    Append,
    /// Adds the value before the existing one; [`Error::NotFound`] if there is none.
    Prepend,
}

/// How soon a full server evicts an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Priority {
    /// Evicted after items of low priority: the least recently or least often used first.
    #[default]
    Normal,
    /// Evicted before items of normal priority, the oldest first.
    Low,
}

/// What a PUT may have in addition to key and value.
///
/// ```
/// use std::time::Duration;
///
/// let once_a_minute = kvd::PutArgs {
///     ttl: Some(Duration::from_secs(60)),
///     mode: kvd::PutMode::IfAbsent,
///     ..Default::default()
/// };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PutArgs {
    /// Stored with the value; no meaning to kvd. Must be 0 with APPEND and PREPEND.
    pub flags: u32,
    /// Time to live, rounded up to seconds; `None`: the key never expires. At most 34 years. Not
    /// allowed with APPEND and PREPEND, which keep the existing value's.
    pub ttl: Option<Duration>,
    /// What the PUT does, depending on whether the key exists.
    pub mode: PutMode,
    /// How long the item is not evicted, rounded up to seconds.
    pub pin: Option<Duration>,
    /// How soon a full server evicts the item.
    pub priority: Priority,
}

/// What [`crate::Client::incr`] and `decr` create if the key does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Initial {
    /// The initial number; `delta` does not change it.
    pub number: u64,
    /// Stored with the number; no meaning to kvd.
    pub flags: u32,
    /// Time to live, rounded up to seconds; `None`: the key never expires.
    pub ttl: Option<Duration>,
}

/// Seconds for the wire, rounded up. A time of 0 is refused: on the wire 0 means none.
pub(crate) fn seconds(time: Option<Duration>, what: &str) -> Result<u32> {
    let time = match time {
        None => return Ok(0),
        Some(time) => time,
    };
    let rounded = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    match u32::try_from(rounded) {
        Ok(seconds) if (1..=sys::KVD_TTL_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(Error::invalid(format!(
            "a {what} of {time:?}: more than 0 and at most {} s are allowed",
            sys::KVD_TTL_MAX
        ))),
    }
}

impl PutArgs {
    pub(crate) fn raw(&self) -> Result<sys::kvd_put_args> {
        let (mode, if_version) = match self.mode {
            PutMode::Set => (sys::KVD_PUT_SET, 0),
            PutMode::IfAbsent => (sys::KVD_PUT_IF_ABSENT, 0),
            PutMode::IfPresent => (sys::KVD_PUT_IF_PRESENT, 0),
            PutMode::IfVersion(version) => (sys::KVD_PUT_IF_VERSION, version),
            PutMode::Append => (sys::KVD_PUT_APPEND, 0),
            PutMode::Prepend => (sys::KVD_PUT_PREPEND, 0),
        };
        Ok(sys::kvd_put_args {
            flags: self.flags,
            ttl_s: seconds(self.ttl, "time to live")?,
            mode,
            if_version,
            pin_s: seconds(self.pin, "pin")?,
            priority: match self.priority {
                Priority::Normal => sys::KVD_PRIORITY_NORMAL,
                Priority::Low => sys::KVD_PRIORITY_LOW,
            },
        })
    }
}

pub(crate) fn arith_raw(initial: Option<&Initial>) -> Result<sys::kvd_arith_args> {
    Ok(match initial {
        None => sys::kvd_arith_args { create: 0, flags: 0, ttl_s: 0, initial: 0 },
        Some(initial) => sys::kvd_arith_args {
            create: 1,
            flags: initial.flags,
            ttl_s: seconds(initial.ttl, "time to live")?,
            initial: initial.number,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_0_is_refused() {
        let max = u64::from(sys::KVD_TTL_MAX);
        for (time, wanted) in [
            (None, Some(0)),
            (Some(Duration::ZERO), None),
            (Some(Duration::from_nanos(1)), Some(1)),
            (Some(Duration::from_secs(1)), Some(1)),
            (Some(Duration::from_nanos(1_000_000_001)), Some(2)),
            (Some(Duration::from_secs(max)), Some(sys::KVD_TTL_MAX)),
            (Some(Duration::from_secs(max) + Duration::from_nanos(1)), None),
            (Some(Duration::from_secs((1 << 32) + 1)), None),
            (Some(Duration::MAX), None),
        ] {
            match seconds(time, "time to live") {
                Ok(seconds) => assert_eq!(Some(seconds), wanted, "of {time:?}"),
                Err(Error::Invalid(text)) => {
                    assert!(wanted.is_none() && text.contains("time to live"), "{text}");
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        let zero = Some(Duration::ZERO);
        for args in [
            PutArgs { ttl: zero, ..Default::default() },
            PutArgs { pin: zero, ..Default::default() },
        ] {
            assert!(matches!(args.raw(), Err(Error::Invalid(_))));
        }
        assert!(arith_raw(Some(&Initial { ttl: zero, ..Default::default() })).is_err());
    }

    #[test]
    fn each_argument_has_an_effect_alone() {
        let raw = |args: PutArgs| {
            let raw = args.raw().unwrap();
            (raw.flags, raw.ttl_s, raw.mode, raw.if_version, raw.pin_s, raw.priority)
        };
        let none = PutArgs::default();
        let three = Some(Duration::from_secs(3));
        assert_eq!(raw(none), (0, 0, sys::KVD_PUT_SET, 0, 0, sys::KVD_PRIORITY_NORMAL));
        assert_eq!(raw(PutArgs { flags: 3, ..none }).0, 3);
        assert_eq!(raw(PutArgs { ttl: three, ..none }), (0, 3, 0, 0, 0, 0));
        assert_eq!(raw(PutArgs { pin: three, ..none }), (0, 0, 0, 0, 3, 0));
        assert_eq!(raw(PutArgs { priority: Priority::Low, ..none }).5, sys::KVD_PRIORITY_LOW);
        for (mode, wanted) in [
            (PutMode::IfAbsent, (sys::KVD_PUT_IF_ABSENT, 0)),
            (PutMode::IfPresent, (sys::KVD_PUT_IF_PRESENT, 0)),
            (PutMode::IfVersion(3), (sys::KVD_PUT_IF_VERSION, 3)),
            (PutMode::Append, (sys::KVD_PUT_APPEND, 0)),
            (PutMode::Prepend, (sys::KVD_PUT_PREPEND, 0)),
        ] {
            let raw = PutArgs { mode, ..none }.raw().unwrap();
            assert_eq!((raw.mode, raw.if_version), wanted);
        }
        let initial = arith_raw(Some(&Initial { number: 1, flags: 2, ttl: three })).unwrap();
        assert_eq!((initial.create, initial.initial, initial.flags, initial.ttl_s), (1, 1, 2, 3));
        assert_eq!(arith_raw(None).unwrap().create, 0);
    }

    #[test]
    fn items_have_all_that_the_library_says() {
        let mut raw = sys::kvd_item { value_len: 1, version: 2, flags: 3, expires_s: 4 };
        let item = Item { value_len: 1, version: 2, flags: 3, expires_s: Some(4) };
        assert_eq!(Item::new(&raw), item);
        raw.expires_s = 0;
        assert_eq!(Item::new(&raw), Item { expires_s: None, ..item });
    }
}
