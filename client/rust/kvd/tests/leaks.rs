// SPDX-License-Identifier: MIT
//! Nothing that the crate allocates is left when its owner has gone. One test: it counts what all
//! threads have.

mod common;

use common::executor::{block_on, poll_once, run_all};
use common::{open, pattern};
use kvd::{GetRequest, PutArgs, ScanArgs};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

// SAFETY: as the system's, which it calls.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(1, Ordering::Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(1, Ordering::Relaxed);
        System.dealloc(memory, layout)
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Longer than what an operation has room for.
fn key(number: usize) -> String {
    format!("leaks/{number:060}")
}

fn calls() {
    let db = open();
    db.put(key(1), pattern(1, 10_000)).unwrap();
    db.get(key(1)).unwrap().unwrap();
    assert!(db.get("").is_err());
    let mut value = vec![0; 10_000];
    db.get_many(&mut [GetRequest::new(&key(1), &mut value)]).unwrap();
    db.exists_many(&[key(1), key(2)]).unwrap();
    let args = ScanArgs { prefix: b"leaks/".to_vec(), values: true, ..Default::default() };
    assert!(db.scan(args).all(|entry| entry.is_ok()));
    drop(db.alloc(4096).unwrap().into_pieces(1000));
    drop(db.register(vec![0u8; 4096]).map_err(|(error, _)| error).unwrap());
    db.register(vec![0u8; 4096]).map_err(|(error, _)| error).unwrap().into_inner().unwrap();
    for owned in [pattern(1, 10), pattern(2, 10)] {
        db.trace(move |_| assert_eq!(owned.len(), 10)).unwrap();
    }
    db.ping().unwrap();
}

fn scopes() {
    let db = open();
    db.scope(|scope| {
        for number in 0..40 {
            drop(scope.put(key(number), pattern(number, 100)));
            drop(scope.get(key(number), vec![0; 100]));
            drop(scope.put("", "refused"));
        }
        let pieces = vec![pattern(1, 10), pattern(2, 20)];
        let put = scope.put_vectored(key(1), pieces, &PutArgs::default()).unwrap();
        put.wait().0.unwrap();
        drop(scope.get_vectored(key(1), vec![vec![0; 10], vec![0; 20]]));
        scope.get(key(1), vec![0; 30]).wait().0.unwrap();
        scope.get(key(1), vec![0; 10]).cancel();
    });
}

fn futures() {
    let (db, mut driver) = open().into_async().unwrap();
    run_all(&mut driver, vec![Box::pin(async { drop(db.put(key(1), pattern(1, 100)).await) })]);
    block_on(&mut driver, db.get(key(1))).unwrap().unwrap();
    drop(db.get_into(key(1), vec![0; 100]));
    for turns in 0..3 {
        let mut future = db.get_into_vectored(key(1), vec![vec![0; 50]; 2]);
        assert!(poll_once(&mut future).is_pending());
        for _ in 0..turns {
            driver.turn().unwrap();
        }
    }
    let mut last = db.get_into(key(1), vec![0; 100]);
    assert!(poll_once(&mut last).is_pending());
    drop(driver);
    assert!(poll_once(&mut last).is_ready());
}

#[test]
fn nothing_is_left() {
    for work in [calls, scopes, futures] {
        work(); // what is made once and for all

        // What the tests' main thread allocates may fall into one round or two, not into most.
        let left = || {
            let before = ALLOCATED.load(Ordering::Relaxed);
            work();
            ALLOCATED.load(Ordering::Relaxed) - before
        };
        assert!((0..10).filter(|_| left() == 0).count() >= 8);
    }
}
