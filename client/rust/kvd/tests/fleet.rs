// SPDX-License-Identifier: MIT
//! A fleet, which is the member "a" alone, by a file: KVD_TEST_FLEET is its URL.

mod common;

use common::{open, options};
use kvd::{Client, Error};

fn open_fleet() -> Client {
    options().open(&std::env::var("KVD_TEST_FLEET").expect("set KVD_TEST_FLEET")).unwrap()
}

#[test]
fn what_the_map_has() {
    let db = open_fleet();
    db.put("fleet", "x").unwrap();
    assert_eq!(db.get("fleet").unwrap().as_deref(), Some(&b"x"[..]));
    let info = db.fleet_info().unwrap();
    assert_eq!((info.name.as_str(), info.epoch, info.members), ("demo", 7, 1));
    assert_eq!((info.shards, info.unowned), (16384, 0));
    assert_ne!(info.generation, 0);
    let member = db.fleet_member(0).unwrap();
    assert_eq!((member.id.as_str(), member.connection.as_str()), ("a", "up"));
    assert_eq!(member.urls, [common::url().as_str(), "rdma://127.0.0.1:1"]);
    assert_eq!((member.weight, member.shards, member.open), (3, 16384, 16384));
    assert!(!member.away && !member.drained && !member.balances);
    assert!(matches!(db.fleet_member(1), Err(Error::NotFound(_))));
    let number = db.fleet_key("fleet").unwrap();
    let shard = db.fleet_shard(number).unwrap();
    assert!(shard.member == Some(0) && shard.open && shard.since <= info.epoch);
    assert_ne!(number, db.fleet_key("another").unwrap());
    assert!(matches!(db.fleet_shard(16384), Err(Error::NotFound(_))));
}

/// A file does not change, and one server is no fleet.
#[test]
fn what_does_not_move() {
    let (db, of_member) = (open_fleet(), open());
    for db in [&db, &of_member] {
        assert!(matches!(db.fleet_drain("a"), Err(Error::Invalid(_))));
        assert!(matches!(db.fleet_undrain("a"), Err(Error::Invalid(_))));
        assert!(matches!(db.fleet_rebalance(), Err(Error::Invalid(_))));
    }
    assert!(db.fleet_rebalance().unwrap_err().to_string().contains("fleet.file"));
    assert!(matches!(db.fleet_drain("a\0b"), Err(Error::Invalid(_))));
    assert!(matches!(of_member.fleet_info(), Err(Error::Invalid(_))));
    assert!(matches!(of_member.fleet_member(0), Err(Error::Invalid(_))));
    assert!(matches!(of_member.fleet_shard(0), Err(Error::Invalid(_))));
    assert!(matches!(of_member.fleet_key("k"), Err(Error::Invalid(_))));
}
