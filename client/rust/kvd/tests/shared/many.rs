// SPDX-License-Identifier: MIT
//! Many keys in one call, and scans.

use crate::common::{open, pattern};
use kvd::{Cursor, Error, GetRequest, RangeRequest, ScanArgs};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};

const KEYS: usize = 100;

fn keys(prefix: &str) -> Vec<String> {
    (0..KEYS).map(|i| format!("{prefix}{i:03}")).collect()
}

#[test]
fn many_gets_have_a_result_each() {
    let db = open();
    let keys = keys("many/get/");
    for (i, key) in keys.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
        db.put(key, pattern(i, i * 10)).unwrap();
    }
    let mut values = vec![vec![0; 980]; KEYS];
    let mut requests: Vec<_> =
        keys.iter().zip(&mut values).map(|(key, value)| GetRequest::new(key, value)).collect();
    assert_eq!(requests[1].value().unwrap(), None);
    db.get_many(&mut requests).unwrap();
    for (i, request) in requests.iter().enumerate() {
        match request.value() {
            Ok(found) if i % 3 == 0 => assert_eq!(found, None),
            Ok(found) => assert_eq!(found, Some(&pattern(i, i * 10)[..])),
            Err(Error::Buffer { needed: 990, .. }) => assert_eq!(i, 99),
            Err(error) => panic!("{error} of {i}"),
        }
    }
    // 99 is a multiple of 3, so 98 is the longest that was stored.
    assert_eq!(requests[98].item().unwrap().unwrap().value_len, 980);
    db.get_many(&mut []).unwrap();
}

#[test]
fn a_buffer_of_many_may_be_too_small() {
    let db = open();
    db.put("many/small", "0123456789").unwrap();
    let (mut small, mut large) = ([0; 9], [0; 10]);
    let mut requests =
        [GetRequest::new("many/small", &mut small), GetRequest::new("many/small", &mut large)];
    db.get_many(&mut requests).unwrap();
    assert!(matches!(requests[0].value(), Err(Error::Buffer { needed: 10, .. })));
    assert_eq!(requests[1].value().unwrap(), Some(&b"0123456789"[..]));
}

#[test]
fn ranges() {
    let db = open();
    let value = pattern(7, 300_000);
    db.put("many/range", &value).unwrap();
    for (offset, length) in [(0, 10), (65_530, 20), (100, 299_900), (299_990, 20), (300_000, 5)] {
        let want = &value[offset.min(value.len())..(offset + length).min(value.len())];
        let found = db.get_range("many/range", offset, length).unwrap().unwrap();
        assert_eq!((&found.data[..], found.item.value_len), (want, 300_000));
    }
    assert_eq!(db.get_range("many/no range", 0, 10).unwrap(), None);
    let mut values = [[0; 100]; 3];
    let [a, b, c] = &mut values;
    let mut requests = [
        RangeRequest::new("many/range", 131_000, a),
        RangeRequest::new("many/range", 299_950, b),
        RangeRequest::new("many/no range", 0, c),
    ];
    assert_eq!(requests[0].value().unwrap(), None);
    db.get_ranges(&mut requests).unwrap();
    assert_eq!(requests[0].value().unwrap(), Some(&value[131_000..131_100]));
    assert_eq!(requests[1].value().unwrap(), Some(&value[299_950..]));
    assert_eq!(requests[2].value().unwrap(), None);
}

#[test]
fn existence_of_many() {
    let db = open();
    let mut keys = keys("many/exists/");
    for key in &keys[..KEYS - 10] {
        db.put(key, "12345").unwrap();
    }
    keys.push(String::new());
    let results = db.exists_many(&keys).unwrap();
    assert_eq!(results.len(), KEYS + 1);
    for (i, result) in results.iter().enumerate() {
        match result {
            Ok(found) => assert_eq!(found.map(|item| item.value_len), (i < 90).then(|| 5)),
            Err(error) => assert!(i == KEYS && matches!(error, Error::Invalid(_))),
        }
    }
    assert_eq!(db.exists_leading(&keys).unwrap(), 90);
    assert_eq!(db.exists_leading::<&str>(&[]).unwrap(), 0);
}

#[test]
fn a_scan_delivers_all() {
    let mut db = open();
    let keys = keys("many/scan/");
    for (i, key) in keys.iter().enumerate() {
        db.put(key, pattern(i, i)).unwrap();
    }
    let args = ScanArgs { prefix: b"many/scan/".to_vec(), count: 7, values: true };
    let found: BTreeMap<_, _> = db
        .scan(args.clone())
        .map(|entry| entry.unwrap())
        .map(|entry| (String::from_utf8(entry.key).unwrap(), entry.value.unwrap()))
        .collect();
    let wanted = keys.iter().enumerate().map(|(i, key)| (key.clone(), pattern(i, i)));
    assert_eq!(found, wanted.collect());

    let (mut cursor, mut some) = (Cursor::START, Vec::new());
    loop {
        db.scan_some(&mut cursor, &ScanArgs { values: false, ..args.clone() }, |entry| {
            assert_eq!(entry.value, None);
            some.push(entry.key.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        if cursor == Cursor::START {
            break;
        }
        cursor = Cursor::new(cursor.number());
    }
    some.sort();
    some.dedup();
    assert_eq!(some.len(), KEYS);
    let long = ScanArgs { prefix: vec![0; 1025], ..Default::default() };
    assert!(matches!(db.scan(long).next(), Some(Err(Error::Invalid(_)))));
}

/// Delivers to `each` from the beginning on until it gets something.
fn first_some(db: &mut kvd::Client, cursor: &mut Cursor, mut each: impl FnMut() -> bool) {
    let args = ScanArgs { prefix: b"many/stop/".to_vec(), ..Default::default() };
    let mut stopped = false;
    while !stopped {
        let before = *cursor;
        db.scan_some(cursor, &args, |_| {
            stopped = each();
            if stopped {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
        assert!(!stopped || *cursor == before, "the cursor moved");
        assert!(stopped || *cursor != Cursor::START, "nothing was delivered");
    }
}

#[test]
fn a_scan_may_be_stopped_and_may_panic() {
    let mut db = open();
    for key in keys("many/stop/") {
        db.put(key, "").unwrap();
    }
    let mut calls = 0;
    let mut cursor = Cursor::START;
    first_some(&mut db, &mut cursor, || {
        calls += 1;
        true
    });
    assert_eq!(calls, 1);

    let panic = catch_unwind(AssertUnwindSafe(|| {
        first_some(&mut db, &mut cursor, || panic!("of the program"));
    }))
    .unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the program"));
    // The client is as usable as before.
    db.ping().unwrap();
    first_some(&mut db, &mut cursor, || true);
}
