// SPDX-License-Identifier: MIT
//! Scans of how keys were used, of a server that evicts.

use crate::common::{open, options, url};
use kvd::{Cursor, Error, Priority, PutArgs, ScanArgs, Use};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

#[test]
fn uses_of_all_keys() {
    let mut db = open();
    let low = PutArgs { priority: Priority::Low, ..Default::default() };
    let pinned = PutArgs { pin: Some(Duration::from_secs(60)), ..Default::default() };
    db.put("uses/normal", "12345").unwrap();
    db.put_with("uses/low", "", &low).unwrap();
    db.put_with("uses/pinned", "", &pinned).unwrap();
    let args = ScanArgs { prefix: b"uses/".to_vec(), ..Default::default() };
    let (mut cursor, mut found) = (Cursor::START, BTreeMap::new());
    loop {
        db.scan_uses_some(&mut cursor, &args, |used| {
            found.insert(String::from_utf8(used.key.to_vec()).unwrap(), (used.usage, used.item));
            ControlFlow::Continue(())
        })
        .unwrap();
        if cursor == Cursor::START {
            break;
        }
    }
    assert_eq!(found.len(), 3);
    assert!(matches!(found["uses/normal"].0, Use::Normal { uses: 0, .. }));
    assert_eq!(found["uses/normal"].1.value_len, 5);
    assert!(matches!(found["uses/low"].0, Use::Low { .. }));
    assert_eq!(found["uses/pinned"].0, Use::Pinned);
}

#[test]
fn what_is_refused_and_a_panic() {
    let mut db = options().open(&url()).unwrap();
    let args = ScanArgs { values: true, ..Default::default() };
    let mut cursor = Cursor::START;
    let result = db.scan_uses_some(&mut cursor, &args, |_| ControlFlow::Continue(()));
    assert!(matches!(result, Err(Error::Invalid(_))));
    db.put("refused", "").unwrap();
    let args = ScanArgs { prefix: b"refused".to_vec(), ..Default::default() };
    let panic = catch_unwind(AssertUnwindSafe(|| loop {
        db.scan_uses_some(&mut cursor, &args, |_| panic!("of the program")).unwrap();
    }))
    .unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the program"));
    db.ping().unwrap();
}
