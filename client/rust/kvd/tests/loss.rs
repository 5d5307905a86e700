// SPDX-License-Identifier: MIT
//! Connections that are lost under the asynchronous front. One test: it has to know which
//! connection is whose.

mod common;

use common::executor::{block_on, poll_once, wait_readable};
use common::{open, options, url};
use kvd::{Client, Error};

fn ids(db: &Client) -> Vec<u64> {
    let list = db.client_list().unwrap();
    list.lines()
        .map(|line| line.strip_prefix("id=").unwrap().split(' ').next().unwrap())
        .map(|id| id.parse().unwrap())
        .collect()
}

/// Opens a client, and says which connection it is.
fn open_known(admin: &Client, reconnect: bool) -> (Client, u64) {
    let before = ids(admin);
    let db = options().reconnect(reconnect).open(&url()).unwrap();
    let id = ids(admin).into_iter().find(|id| !before.contains(id)).unwrap();
    (db, id)
}

fn opened_again(admin: &Client) {
    let (db, id) = open_known(admin, true);
    let (db, mut driver) = db.into_async().unwrap();
    block_on(&mut driver, db.put("loss/key", "before")).unwrap();
    admin.client_kill(id).unwrap();
    let value = block_on(&mut driver, db.get_by_request("loss/key", vec![0; 6]));
    assert_eq!(value.0.unwrap().value_len, 6);
    assert_eq!(value.1, b"before");
    assert_eq!(db.with_client(|db| db.info().reconnects).unwrap(), 1);
}

fn ended(admin: &Client) {
    let (db, id) = open_known(admin, false);
    let (db, mut driver) = db.into_async().unwrap();
    block_on(&mut driver, db.ping()).unwrap();
    admin.client_kill(id).unwrap();
    let mut get = db.get_into("loss/key", vec![0; 6]);
    assert!(poll_once(&mut get).is_pending());
    let error = loop {
        match driver.turn() {
            Err(error) => break error,
            Ok(_) => assert!(wait_readable(&driver, 20_000), "the loss was not seen"),
        }
    };
    assert!(matches!(error, Error::Disconnected(_)), "{error:?}");
    // It ended, in one way or the other, before the loss was seen.
    assert!(poll_once(&mut get).is_ready());
    let mut late = db.get_into("loss/key", vec![0; 6]);
    assert!(poll_once(&mut late).is_pending());
    assert!(driver.turn().is_err());
    assert!(poll_once(&mut late).is_ready());
}

#[test]
fn connections_are_lost() {
    let admin = open();
    opened_again(&admin);
    ended(&admin);
}
