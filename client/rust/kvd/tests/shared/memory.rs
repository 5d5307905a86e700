// SPDX-License-Identifier: MIT
//! Registered memory: values are not copied, and its lifetime is that of its owner.
#![allow(clippy::needless_collect)] // all have to begin before one is waited for

use crate::common::{open, pattern};
use kvd::{BufferMut, Error};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

const BLOCK: usize = 256 << 10;

#[test]
fn values_go_to_and_from_allocated_memory_without_a_copy() {
    let db = open();
    let mut memory = db.alloc(4 * BLOCK).unwrap();
    assert!(memory.len() >= 4 * BLOCK && memory.iter().all(|&byte| byte == 0));
    assert!(memory.info().bytes >= 4 * BLOCK && memory.info().registrations >= 1);
    let value = pattern(1, BLOCK);
    memory[..BLOCK].copy_from_slice(&value);
    db.put("memory/alloc", &memory[..BLOCK]).unwrap();
    let put = db.stats();
    let item = db.get_into("memory/alloc", &mut memory[BLOCK..2 * BLOCK]).unwrap();
    assert_eq!(item.unwrap().value_len, BLOCK);
    assert_eq!(memory[BLOCK..2 * BLOCK], value);
    assert_eq!(put.direct_bytes, BLOCK as u64);
    assert_eq!(db.stats().direct_bytes, 2 * BLOCK as u64);
}

#[test]
fn registered_memory_is_given_back() {
    let db = open();
    let mut memory = db.register(vec![1u8; BLOCK]).map_err(|(error, _)| error).unwrap();
    memory[0] = 7;
    db.put("memory/register", &memory[..]).unwrap();
    let put = db.stats().direct_bytes; // 0 on softnic
    db.get_into("memory/register", &mut memory[..]).unwrap();
    assert_eq!(db.stats().direct_bytes, put + BLOCK as u64);
    let mut back = memory.into_inner().unwrap();
    assert_eq!((back.len(), back[0], back[1]), (BLOCK, 7, 1));
    db.get_into("memory/register", &mut back[..]).unwrap();
    assert_eq!(db.stats().direct_bytes, put + BLOCK as u64, "it is registered still");
    let (error, empty) = db.register(Vec::new()).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)) && empty.is_empty());
}

#[test]
fn borrowed_memory_is_registered_during_a_call() {
    let db = open();
    let mut bytes = pattern(3, BLOCK);
    let direct = db
        .with_registered(&mut bytes, |bytes| {
            db.put("memory/with", &*bytes).unwrap();
            bytes.fill(0);
            let put = db.stats().direct_bytes; // 0 on softnic
            db.scope(|scope| scope.get("memory/with", &mut *bytes).wait().0.unwrap());
            db.stats().direct_bytes - put
        })
        .unwrap();
    assert_eq!(direct, BLOCK as u64);
    assert_eq!(bytes, pattern(3, BLOCK));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = db.with_registered(&mut bytes, |_| panic!("of the program"));
    }));
    assert!(panic.is_err());
    // The registration ended with the panic, so the memory can be registered again.
    db.with_registered(&mut bytes, |_| ()).unwrap();
    let twice = db.with_registered(&mut bytes, |bytes| db.with_registered(bytes, |_| ()));
    assert!(matches!(twice.unwrap(), Err(Error::Invalid(_))));
}

#[test]
fn pieces_have_an_owner_each_and_outlive_the_client() {
    let db = open();
    let mut pieces = db.alloc(1 << 20).unwrap().into_pieces(BLOCK);
    assert!(pieces.len() >= 4 && pieces[0].len() == BLOCK);
    for (i, piece) in pieces.iter_mut().enumerate() {
        piece[..].copy_from_slice(&pattern(i, BLOCK));
    }
    let last = pieces.split_off(3);
    db.scope(|scope| {
        let puts: Vec<_> = pieces
            .drain(..)
            .enumerate()
            .map(|(i, piece)| scope.put(format!("memory/piece/{i}"), piece))
            .collect();
        for (i, put) in puts.into_iter().enumerate() {
            let (version, piece) = put.wait();
            version.unwrap();
            assert_eq!(*piece, pattern(i, BLOCK)[..]);
        }
    });
    assert_eq!(db.stats().direct_bytes, 3 * BLOCK as u64);
    drop(db);
    assert_eq!(*last[0], pattern(3, BLOCK)[..]);
}

#[test]
fn a_leak_of_memory_is_no_more_than_that() {
    let db = open();
    std::mem::forget(db.register(pattern(4, BLOCK)).map_err(|(error, _)| error).unwrap());
    std::mem::forget(db.alloc(BLOCK).unwrap());
    db.put("memory/leak", pattern(4, BLOCK)).unwrap();
    assert_eq!(&*db.get("memory/leak").unwrap().unwrap(), pattern(4, BLOCK));
}

/// Bytes that count when they are dropped.
struct Backing(Vec<u8>, Arc<AtomicUsize>);

// SAFETY: as of the vector.
unsafe impl BufferMut for Backing {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        self.0.bytes_mut()
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.0.fill(0xff);
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_backs_memory_lives_as_long_as_a_piece_of_it() {
    let (db, dropped) = (open(), Arc::new(AtomicUsize::new(0)));
    let register = |seed| {
        let backing = Backing(pattern(seed, 2 * BLOCK + 1000), dropped.clone());
        db.register(backing).map_err(|(error, _)| error).unwrap()
    };
    drop(register(1));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    drop(register(2).into_inner().unwrap());
    assert_eq!(dropped.load(Ordering::Relaxed), 2);

    let memory = register(3);
    assert_eq!((memory.len(), memory.info().bytes), (2 * BLOCK + 1000, 2 * BLOCK + 1000));
    assert_ne!(memory.info().register_time, Duration::ZERO);
    let wanted = memory.to_vec();
    let mut pieces = memory.into_pieces(BLOCK);
    assert!(pieces.iter().flat_map(|piece| piece.iter()).eq(&wanted));
    assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [BLOCK, BLOCK, 1000]);
    while pieces.len() > 1 {
        pieces.pop();
        assert_eq!(dropped.load(Ordering::Relaxed), 2, "a piece is left");
        assert_eq!(*pieces[0], wanted[..BLOCK]);
    }
    // The memory stays registered while a piece is left.
    db.put("memory/last", &*pieces[0]).unwrap();
    let before = db.stats().direct_bytes;
    db.get_into("memory/last", &mut pieces[0]).unwrap();
    assert_eq!(db.stats().direct_bytes - before, BLOCK as u64);
    pieces.pop();
    assert_eq!(dropped.load(Ordering::Relaxed), 3, "no piece is left");
}

/// A process may have 64 registrations at a time.
#[test]
fn registrations_end() {
    let db = open();
    let mut bytes = vec![0u8; 4096];
    for _ in 0..100 {
        drop(db.alloc(4096).unwrap());
        drop(db.alloc(4096).unwrap().into_pieces(1000));
        db.with_registered(&mut bytes, |_| ()).unwrap();
        let memory = db.register(std::mem::take(&mut bytes)).map_err(|(error, _)| error).unwrap();
        bytes = memory.into_inner().unwrap();
        drop(db.register(vec![0u8; 4096]).map_err(|(error, _)| error).unwrap());
    }
    assert!(matches!(db.alloc(0), Err(Error::Invalid(_))));
    let memory = db.alloc(4096).unwrap();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| memory.into_pieces(0)));
    assert!(panic.is_err());
}
