// SPDX-License-Identifier: MIT
//! Connections that are lost under the asynchronous client. One test: it has to know which
//! connection is whose.

mod common;

use common::executor::{block_on, poll_once, wait_readable};
use common::{open, options, url, HANG};
use kvd::{Client, Error, GetRequest, Turn};
use std::time::Instant;

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
            Ok(Turn::Wait) => wait_readable(&driver),
            Ok(_) => {}
        }
    };
    assert!(matches!(error, Error::Disconnected(_)), "{error:?}");
    // The GET ended, with or without success, before the loss was noticed.
    assert!(poll_once(&mut get).is_ready());
    let mut late = db.get_into("loss/key", vec![0; 6]);
    assert!(poll_once(&mut late).is_pending());
    assert!(driver.turn().is_err());
    assert!(poll_once(&mut late).is_ready());
}

/// Waits until the server has no such connection any more.
fn wait_until_closed(admin: &Client, id: u64) {
    let end = Instant::now() + HANG;
    while ids(admin).contains(&id) {
        assert!(Instant::now() < end, "the connection is open still");
        std::thread::yield_now();
    }
}

fn calls_fail(admin: &Client) {
    let (db, id) = open_known(admin, false);
    admin.client_kill(id).unwrap();
    while db.ping().is_ok() {}
    let mut value = [0; 1];
    let mut requests = [GetRequest::new("loss/key", &mut value)];
    assert!(matches!(db.get_many(&mut requests), Err(Error::Disconnected(_))));
    assert!(matches!(requests[0].item(), Err(Error::Disconnected(_))));
    assert!(matches!(db.exists("loss/key"), Err(Error::Disconnected(_))));
    assert!(matches!(db.exists_many(&["loss/key"]), Err(Error::Disconnected(_))));
    assert!(matches!(db.exists_leading(&["loss/key"]), Err(Error::Disconnected(_))));
    assert!(matches!(db.get("loss/key"), Err(Error::Disconnected(_))));
    assert!(matches!(db.scan(Default::default()).next(), Some(Err(Error::Disconnected(_)))));
    assert!(matches!(db.delete("loss/key"), Err(Error::Disconnected(_))));
}

fn closed(admin: &Client) {
    let (db, id) = open_known(admin, true);
    drop(db);
    wait_until_closed(admin, id);
    let (db, id) = open_known(admin, true);
    let (db, driver) = db.into_async().unwrap();
    drop(driver);
    wait_until_closed(admin, id);
    assert!(db.with_client(|_| ()).is_err());
}

#[test]
fn connections_are_lost() {
    let admin = open();
    opened_again(&admin);
    ended(&admin);
    calls_fail(&admin);
    closed(&admin);
}
