// SPDX-License-Identifier: MIT
//! Operations one at a time: what they return, and their errors.

use crate::common::{open, options, pattern, url};
use kvd::{Client, Error, Initial, PutArgs, PutMode};
use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

#[test]
fn what_was_put_is_read() {
    let db = open();
    let version = db.put("one/name", "Ada").unwrap();
    let value = db.get("one/name").unwrap().unwrap();
    assert_eq!((&*value, value.item.version), (&b"Ada"[..], version));
    assert_eq!((value.item.value_len, value.item.flags, value.item.expires_s), (3, 0, None));
    assert_eq!(db.get_by_request("one/name").unwrap().unwrap(), value);
    assert_eq!(db.exists("one/name").unwrap(), Some(value.item));
    assert!(db.put("one/name", "Grace").unwrap() > version);
    assert_eq!(&*db.get("one/name").unwrap().unwrap(), b"Grace");
}

#[test]
fn what_is_not_there_is_none() {
    let db = open();
    assert_eq!(db.get("one/nobody").unwrap(), None);
    assert_eq!(db.get_by_request("one/nobody").unwrap(), None);
    assert_eq!(db.get_into("one/nobody", &mut [0; 10]).unwrap(), None);
    assert_eq!(db.exists("one/nobody").unwrap(), None);
    assert!(!db.delete("one/nobody").unwrap());
    assert!(matches!(db.touch("one/nobody", None), Err(Error::NotFound(_))));
    assert!(matches!(db.incr("one/nobody", 1, None), Err(Error::NotFound(_))));
    // The text is not that of an earlier failure.
    let refused = db.get("").unwrap_err();
    let absent = db.touch("one/nobody", None).unwrap_err();
    assert!(refused.to_string().contains("key") && absent.to_string() == "not found", "{absent}");
}

#[test]
fn keys_and_values_may_have_any_bytes() {
    let db = open();
    let key: Vec<u8> = (0..=255).chain(0..=255).chain(0..=255).chain(0..=255).collect();
    assert_eq!(key.len(), kvd::KEY_MAX);
    for len in [0, 1, 4095, 4096, 4097, 65536, 65537, 1 << 20] {
        let value = pattern(len, len);
        db.put(&key, &value).unwrap();
        assert!(*db.get(&key).unwrap().unwrap() == value[..], "of {len} bytes");
        assert!(*db.get_by_request(&key).unwrap().unwrap() == value[..], "of {len} bytes");
    }
    assert!(db.delete(&key).unwrap());
    assert_eq!(db.get(&key).unwrap(), None);
}

#[test]
fn a_buffer_gets_the_value_or_says_what_is_needed() {
    let db = open();
    db.put("one/buffer", "0123456789").unwrap();
    let mut buffer = [b'x'; 12];
    let item = db.get_into("one/buffer", &mut buffer).unwrap().unwrap();
    assert_eq!((item.value_len, &buffer), (10, b"0123456789xx"));
    match db.get_into("one/buffer", &mut buffer[..9]) {
        Err(Error::Buffer { needed: 10, text }) => assert!(!text.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pieces_are_put_together_and_taken_apart() {
    let db = open();
    let args = PutArgs::default();
    let pieces = [&b"ab"[..], b"", b"cdef"].map(IoSlice::new);
    db.put_vectored("one/pieces", &pieces, &args).unwrap();
    let (mut first, mut second) = ([0; 3], [0; 4]);
    let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    let item = db.get_into_vectored("one/pieces", &mut into).unwrap().unwrap();
    assert_eq!((item.value_len, &first, &second), (6, b"abc", b"def\0"));
    let many = [IoSlice::new(b"x"); 65];
    assert!(matches!(db.put_vectored("one/pieces", &many, &args), Err(Error::Invalid(_))));
}

#[test]
fn modes_of_put_have_their_conditions() {
    let db = open();
    let put = |mode, value: &str| {
        db.put_with("one/modes", value, &PutArgs { mode, ..Default::default() })
    };
    db.delete("one/modes").unwrap();
    assert!(matches!(put(PutMode::IfPresent, "x"), Err(Error::NotFound(_))));
    assert!(matches!(put(PutMode::Append, "x"), Err(Error::NotFound(_))));
    let version = put(PutMode::IfAbsent, "b").unwrap();
    assert!(matches!(put(PutMode::IfAbsent, "x"), Err(Error::Exists(_))));
    assert!(matches!(put(PutMode::IfVersion(version + 1), "x"), Err(Error::Exists(_))));
    put(PutMode::IfVersion(version), "m").unwrap();
    put(PutMode::Append, "e").unwrap();
    let version = put(PutMode::Prepend, "b").unwrap();
    assert_eq!(&*db.get("one/modes").unwrap().unwrap(), b"bme");
    assert!(matches!(db.delete_if("one/modes", version - 1), Err(Error::Exists(_))));
    assert!(db.delete_if("one/modes", version).unwrap());
    assert!(!db.delete_if("one/modes", version).unwrap());
}

#[test]
fn numbers_are_counted() {
    let db = open();
    db.delete("one/number").unwrap();
    let first = Initial { number: 5, flags: 9, ..Default::default() };
    assert_eq!(db.incr("one/number", 3, Some(&first)).unwrap().number, 5);
    let counted = db.incr("one/number", 3, Some(&first)).unwrap();
    let value = db.get("one/number").unwrap().unwrap();
    assert_eq!((counted.number, counted.version), (8, value.item.version));
    assert_eq!((&*value, value.item.flags), (&b"8"[..], 9));
    assert_eq!(db.decr("one/number", 10, None).unwrap().number, 0);
    assert_eq!(db.incr("one/number", u64::MAX, None).unwrap().number, u64::MAX);
    assert_eq!(db.incr("one/number", 2, None).unwrap().number, 1);
    db.put("one/number", "many").unwrap();
    assert!(matches!(db.incr("one/number", 1, None), Err(Error::NotANumber(_))));
}

#[test]
fn times_to_live_are_kept() {
    let db = open();
    let hour = Some(Duration::from_secs(3600));
    let args = PutArgs { ttl: hour, flags: 77, ..Default::default() };
    db.put_with("one/ttl", "x", &args).unwrap();
    let item = db.exists("one/ttl").unwrap().unwrap();
    let end = item.expires_s.unwrap();
    assert_eq!(item.flags, 77);
    assert_eq!(db.touch("one/ttl", None).unwrap(), item.version);
    assert_eq!(db.exists("one/ttl").unwrap().unwrap().expires_s, None);
    let touched = db.get_and_touch("one/ttl", hour).unwrap().unwrap();
    assert!(touched.item.expires_s.unwrap() >= end);
    // Rounded up, not to 0, which would mean for ever.
    db.touch("one/ttl", Some(Duration::from_millis(1))).unwrap();
    assert!(db.exists("one/ttl").unwrap().map_or(true, |item| item.expires_s.is_some()));
    for bad in [Duration::ZERO, Duration::from_secs(1 << 31), Duration::MAX] {
        let args = PutArgs { ttl: Some(bad), ..Default::default() };
        assert!(matches!(db.put_with("one/ttl", "x", &args), Err(Error::Invalid(_))));
        assert!(matches!(db.touch("one/ttl", Some(bad)), Err(Error::Invalid(_))));
    }
}

#[test]
fn errors_say_what_and_why() {
    let db = open();
    let error = db.get("").unwrap_err();
    assert!(error.text().contains("1 to 1024"), "{error}");
    assert_eq!(error.status(), kvd::sys::KVD_ERR_INVALID);
    assert!(matches!(db.put(vec![0; 1025], ""), Err(Error::Invalid(_))));
    let max = db.info().value_max as usize;
    assert!(matches!(db.put("one/long", vec![0; max + 1]), Err(Error::TooLarge(_))));
    let io = std::io::Error::from(error);
    assert_eq!(io.kind(), std::io::ErrorKind::InvalidInput);
    assert!(io.to_string().contains("1 to 1024"));
}

#[test]
fn what_can_not_be_opened_says_why() {
    for (url, status) in [
        ("nowhere", kvd::sys::KVD_ERR_INVALID),
        ("softnic:///nowhere/kvd.sock", kvd::sys::KVD_ERR_UNREACHABLE),
        ("softnic:///zero\0byte", kvd::sys::KVD_ERR_INVALID),
    ] {
        let error = Client::open(url).unwrap_err();
        assert_eq!(error.status(), status, "{url}: {error}");
        assert!(!error.text().is_empty());
    }
    assert!(matches!(options().depth(0).open(&url()), Err(Error::Invalid(_))));
    assert!(matches!(options().tls_ca("a\0b").open(&url()), Err(Error::Invalid(_))));
    assert!(matches!(options().tenant("nobody's").open(&url()), Err(_)));
    assert!(matches!(options().tenant("nobody").open(&url()), Err(Error::Refused(_))));
    options().tenant("default").open(&url()).unwrap().ping().unwrap();
}

/// Each status has a variant of its own, and none is lost.
#[test]
fn errors_have_the_status_that_they_are_made_of() {
    let statuses: Vec<u32> = (1..=22).collect();
    let text = "text".to_string();
    let errors = [
        Error::NotFound(text.clone()),
        Error::Invalid(text.clone()),
        Error::TooLarge(text.clone()),
        Error::Buffer { needed: 1, text: text.clone() },
        Error::NoSpace(text.clone()),
        Error::NoMemory(text.clone()),
        Error::Timeout(text.clone()),
        Error::Disconnected(text.clone()),
        Error::Unreachable(text.clone()),
        Error::Refused(text.clone()),
        Error::Device(text.clone()),
        Error::Protocol(text.clone()),
        Error::Busy(text.clone()),
        Error::Exists(text.clone()),
        Error::NotANumber(text.clone()),
        Error::Canceled(text.clone()),
        Error::Unknown(text.clone()),
        Error::Auth(text.clone()),
        Error::NotAllowed(text.clone()),
        Error::Limit(text.clone()),
        Error::Away(text.clone()),
        Error::Moved(text.clone()),
    ];
    assert_eq!(errors.iter().map(Error::status).collect::<Vec<_>>(), statuses);
    assert!(errors.iter().all(|error| error.text() == text));
}

#[test]
fn a_client_may_move_to_another_thread() {
    let db = open();
    db.put("one/moved", "before").unwrap();
    let db = std::thread::spawn(move || {
        assert_eq!(&*db.get("one/moved").unwrap().unwrap(), b"before");
        db
    })
    .join()
    .unwrap();
    assert!(db.delete("one/moved").unwrap());
}

#[test]
fn info_and_versions_are_there() {
    let db = open();
    let info = db.info();
    assert!(info.value_max >= 1 << 20 && info.connection == "up", "{info:?}");
    assert!(!info.device_kind.is_empty() && info.incarnation != 0, "{info:?}");
    assert!(kvd::version().starts_with("0.4."));
    assert!(!kvd::default_url().is_empty());
    assert!(format!("{db:?}").contains("up"));
}
