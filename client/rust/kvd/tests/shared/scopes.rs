// SPDX-License-Identifier: MIT
//! Many operations under way at once, and who may use their memory meanwhile.
#![allow(clippy::needless_collect)] // all have to begin before one is waited for

use crate::common::{open, options, pattern, url, HANG};
use kvd::{BufferMut, Error, Initial, PutArgs, PutMode, Scope};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MANY: usize = 500;

#[test]
fn all_that_was_begun_is_done() {
    let db = open();
    let values: Vec<Vec<u8>> = (0..MANY).map(|i| pattern(i, i)).collect();
    db.scope(|scope| {
        let puts: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(i, value)| scope.put(format!("scopes/all/{i}"), &value[..]))
            .collect();
        for put in puts {
            assert!(put.wait().0.unwrap() > 0);
        }
    });
    let mut buffers = vec![[0; MANY]; MANY];
    db.scope(|scope| {
        let gets: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, buffer)| scope.get(format!("scopes/all/{i}"), buffer))
            .collect();
        for (i, get) in gets.into_iter().enumerate().rev() {
            let (item, buffer) = get.wait();
            assert_eq!(buffer[..item.unwrap().value_len], values[i]);
        }
    });
}

#[test]
fn a_scope_waits_for_what_nobody_waits_for() {
    let db = open();
    let value = pattern(1, 1000);
    db.put("scopes/leaked", &value).unwrap();
    let mut buffers = vec![vec![0; 1000]; 50];
    db.scope(|scope| {
        for (i, buffer) in buffers.iter_mut().enumerate() {
            let ticket = scope.get("scopes/leaked", &mut buffer[..]);
            match i % 3 {
                0 => std::mem::forget(ticket),
                1 => drop(ticket),
                _ => ticket.cancel(),
            }
        }
        std::mem::forget(scope.put("scopes/forgotten", &value));
    });
    for (i, buffer) in buffers.iter().enumerate().filter(|(i, _)| i % 3 < 2) {
        assert_eq!(buffer, &value, "buffer {i}");
    }
    assert_eq!(&*db.get("scopes/forgotten").unwrap().unwrap(), value);
}

#[test]
fn a_scope_waits_when_there_is_a_panic() {
    let db = open();
    let mut buffer = vec![0; 1 << 20];
    let value = pattern(2, 1 << 20);
    db.put("scopes/panic", &value).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        db.scope(|scope| {
            let _ticket = scope.get("scopes/panic", &mut buffer[..]);
            scope.poll(); // submits
            panic!("of the program");
        })
    }));
    assert!(panic.is_err());
    assert_eq!(buffer, value);
    db.ping().unwrap();
}

/// A buffer that begins GETs to these when it is dropped, and leaks their tickets.
struct Begins<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    buffers: Vec<&'env mut Vec<u8>>,
}

// SAFETY: there are no bytes.
unsafe impl BufferMut for Begins<'_, '_> {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        <&mut [u8]>::default().bytes_mut()
    }
}

impl Drop for Begins<'_, '_> {
    fn drop(&mut self) {
        for buffer in self.buffers.drain(..) {
            std::mem::forget(self.scope.get("scopes/begins", buffer));
        }
    }
}

#[test]
fn a_scope_waits_for_what_a_buffer_begins_when_it_is_dropped() {
    let db = open();
    let value = pattern(3, 1000);
    db.put("scopes/begins", &value).unwrap();
    for many in [1, 40] {
        let mut buffers = vec![vec![0; 1000]; many];
        db.scope(|scope| {
            drop(
                scope.get("scopes/nobody", Begins { scope, buffers: buffers.iter_mut().collect() }),
            );
        });
        assert!(buffers.iter().all(|buffer| *buffer == value), "of {many}");
    }
}

/// A buffer whose drop counts, and panics.
struct Panics<'a>(&'a AtomicUsize);

// SAFETY: there are no bytes.
unsafe impl BufferMut for Panics<'_> {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        <&mut [u8]>::default().bytes_mut()
    }
}

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new(before)); // prints nothing
    }
}

#[test]
fn buffers_whose_drop_panics_are_dropped_once_each() {
    let (db, dropped) = (open(), AtomicUsize::new(0));
    let panic = catch_unwind(AssertUnwindSafe(|| {
        db.scope(|scope| {
            for _ in 0..40 {
                drop(scope.get("scopes/nobody", Panics(&dropped)));
            }
        });
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&0usize), "not the first panic");
    assert_eq!(dropped.into_inner(), 40);
    db.ping().unwrap();
}

struct Counts<'a>(&'a AtomicUsize);

// SAFETY: there are no bytes.
unsafe impl BufferMut for Counts<'_> {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        <&mut [u8]>::default().bytes_mut()
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_buffer_that_nobody_waits_for_is_dropped_before_the_scope_ends() {
    let (db, dropped) = (open(), AtomicUsize::new(0));
    db.scope(|scope| {
        drop(scope.get("scopes/nobody", Counts(&dropped)));
        assert_eq!(dropped.load(Ordering::Relaxed), 0, "while it is under way");
        let end = Instant::now() + HANG;
        while dropped.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < end);
            scope.ping().wait().0.unwrap();
        }
    });
    assert_eq!(dropped.into_inner(), 1);
}

#[test]
fn changes_keep_their_order_and_gets_see_them() {
    let db = open();
    let _ = db.delete("scopes/order");
    let first = Initial::default();
    let (number, seen) = db.scope(|scope| {
        for _ in 0..100 {
            drop(scope.incr("scopes/order", 1, Some(&first)).unwrap());
        }
        let get = scope.get("scopes/order", vec![0; 20]);
        let decr = scope.decr("scopes/order", 1000, None).unwrap();
        let (item, mut bytes) = get.wait();
        bytes.truncate(item.unwrap().value_len);
        (decr.wait().0.unwrap().number, String::from_utf8(bytes).unwrap())
    });
    assert_eq!(number, 0);
    assert!(seen == "99" || seen == "0", "{seen}");
}

#[test]
fn one_that_is_refused_is_refused_alone() {
    let db = open();
    db.scope(|scope| {
        let good = scope.put("scopes/good", "x");
        let bad = scope.put("", "x");
        let also_good = scope.touch("scopes/good", None).unwrap();
        assert!(matches!(bad.wait().0, Err(Error::Invalid(text)) if text.contains("key")));
        assert_eq!(good.wait().0.unwrap(), also_good.wait().0.unwrap());
    });
}

#[test]
fn every_kind_of_operation() {
    let db = open();
    let args = PutArgs { mode: PutMode::IfAbsent, flags: 3, ..Default::default() };
    let hour = Some(Duration::from_secs(3600));
    let _ = db.delete("scopes/kinds");
    db.scope(|scope| {
        let owned: Arc<[u8]> = Arc::from(&b"value"[..]);
        let (version, value) = scope.put_with("scopes/kinds", owned.clone(), &args).unwrap().wait();
        assert!(Arc::ptr_eq(&value, &owned));
        let again = scope.put_with("scopes/kinds", "x", &args).unwrap();
        assert!(matches!(again.wait().0, Err(Error::Exists(_))));
        let item = scope.exists("scopes/kinds").wait().0.unwrap();
        assert_eq!((item.version, item.flags, item.value_len), (version.unwrap(), 3, 5));
        let touching = scope.get_and_touch("scopes/kinds", hour, vec![0; 5]).unwrap();
        let (touched, bytes) = touching.wait();
        assert!(touched.unwrap().expires_s.is_some());
        assert_eq!(bytes, b"value");
        let (item, bytes) = scope.get_by_request("scopes/kinds", [0; 5].to_vec()).wait();
        assert_eq!((item.unwrap().value_len, &bytes[..]), (5, &b"value"[..]));
        let small = scope.get("scopes/kinds", vec![0; 4]).wait().0;
        assert!(matches!(small, Err(Error::Buffer { needed: 5, .. })));
        let wrong = scope.delete("scopes/kinds", Some(1)).wait().0;
        assert!(matches!(wrong, Err(Error::Exists(_))));
        scope.delete("scopes/kinds", None).wait().0.unwrap();
        assert!(matches!(scope.delete("scopes/kinds", None).wait().0, Err(Error::NotFound(_))));
        assert!(matches!(scope.exists("scopes/kinds").wait().0, Err(Error::NotFound(_))));
        scope.ping().wait().0.unwrap();
        assert!(scope.touch("scopes/kinds", Some(Duration::ZERO)).is_err());
    });
}

#[test]
fn values_in_pieces() {
    let db = open();
    let value = pattern(6, 300_000);
    let (mut head, mut tail) = ([0; 7], vec![0; 300_000 - 7]);
    db.scope(|scope| {
        let (one, rest) = value.split_at(100);
        let pieces = vec![one, &[], rest];
        let (version, pieces) =
            scope.put_vectored("scopes/pieces", pieces, &PutArgs::default()).unwrap().wait();
        version.unwrap();
        assert!(pieces == vec![one, &[], rest]);
        let get = scope.get_vectored("scopes/pieces", vec![&mut head[..], &mut tail[..]]);
        assert_eq!(get.wait().0.unwrap().value_len, value.len());
        let small = scope.get_vectored("scopes/pieces", vec![vec![0; 100]; 2]).wait();
        assert!(matches!(small.0, Err(Error::Buffer { needed: 300_000, .. })), "{small:?}");
        let many = scope.get_vectored("scopes/pieces", vec![vec![0; 1]; 65]).wait();
        assert!(matches!(many.0, Err(Error::Invalid(_))), "{many:?}");
        drop(scope.get_vectored("scopes/pieces", vec![vec![0; 100_000]; 3]));
    });
    assert!([&head[..], &tail].concat() == value);
}

#[test]
fn operations_are_canceled_and_time_out() {
    let db = options().depth(1).open(&url()).unwrap();
    db.put("scopes/cancel", vec![0; 1 << 20]).unwrap();
    db.scope(|scope| {
        let before = [(); 2].map(|()| scope.get("scopes/cancel", vec![0; 1 << 20]));
        let ticket = scope.put("scopes/canceled", "x");
        assert!(!ticket.has_ended());
        ticket.cancel(); // while the first of those before it is in flight
        assert!(matches!(ticket.wait().0, Err(Error::Canceled(_))));
        before.map(|get| get.wait().0.unwrap());
        assert!(matches!(scope.exists("scopes/canceled").wait().0, Err(Error::NotFound(_))));
    });
    db.put("scopes/cancel", "x").unwrap();
    db.scope(|scope| {
        scope.timeout(Some(Duration::from_nanos(1)));
        let late = scope.get("scopes/cancel", vec![0; 1]);
        scope.timeout(None);
        let other = scope.get("scopes/cancel", vec![0; 1]);
        assert!(matches!(late.wait().0, Ok(_) | Err(Error::Timeout(_))));
        other.wait().0.unwrap();
    });
}

#[test]
fn calls_and_scopes_may_be_nested() {
    let db = open();
    db.scope(|outer| {
        let put = outer.put("scopes/nested", "x");
        assert_eq!(&*db.get("scopes/other").unwrap().map_or(vec![], Vec::from), b"");
        db.scope(|inner| inner.ping().wait().0.unwrap());
        db.ping().unwrap();
        put.wait().0.unwrap();
        let mut ticket = Some(outer.ping());
        while !ticket.as_ref().map_or(true, |ticket| ticket.has_ended()) {
            outer.poll();
        }
        ticket.take().unwrap().wait().0.unwrap();
    });
}
