// SPDX-License-Identifier: MIT
//! Flushes, lists and tenants: one test, since a flush takes the keys of all others.

mod common;

use common::{open, options, url, HANG};
use kvd::{Error, PutArgs};
use std::time::{Duration, Instant};

fn id_of_other(db: &kvd::Client, own: &[u64]) -> u64 {
    ids(db).into_iter().find(|id| !own.contains(id)).expect("the other's connection")
}

fn ids(db: &kvd::Client) -> Vec<u64> {
    let list = db.client_list().unwrap();
    list.lines()
        .filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok())
        .collect()
}

fn flushes(db: &kvd::Client) {
    db.put("admin/flush", "x").unwrap();
    db.flush_all().unwrap();
    assert_eq!(db.get("admin/flush").unwrap(), None);

    db.put("admin/flush", "x").unwrap();
    let later = db.flush_start(Duration::from_secs(3600)).unwrap();
    assert!(!db.flush_done(later).unwrap());
    assert!(db.get("admin/flush").unwrap().is_some());
    let now = db.flush_start(Duration::ZERO).unwrap();
    let deadline = Instant::now() + HANG;
    while !db.flush_done(now).unwrap() {
        assert!(Instant::now() < deadline, "the flush is not done");
    }
    assert_eq!(db.get("admin/flush").unwrap(), None);
    assert_eq!(db.flush_cancel(Some(later), false).unwrap(), 1);
    assert!(matches!(db.flush_cancel(None, true), Err(Error::NotFound(_))));
    assert!(matches!(db.flush_start(Duration::MAX), Err(Error::Invalid(_))));
}

fn connections(db: &kvd::Client) {
    let own = ids(db);
    let other = open();
    other.ping().unwrap();
    let id = id_of_other(db, &own);
    db.client_kill(id).unwrap();
    assert!(matches!(db.client_kill(u64::MAX), Err(Error::NotFound(_))));
    // The other client connects again by itself.
    other.put("admin/again", "x").unwrap();
    assert_eq!(other.info().reconnects, 1);
    let again = id_of_other(db, &own);
    assert_ne!(again, id);
    assert_eq!(db.revoke(&format!("id={again}")).unwrap(), 1);
    assert!(matches!(db.revoke("id=999999999"), Err(Error::NotFound(_))));
    assert!(matches!(db.revoke("nonsense"), Err(Error::Invalid(_))));
    assert!(matches!(db.revoke("a\0b"), Err(Error::Invalid(_))));
    other.ping().unwrap();
}

fn config(db: &kvd::Client) {
    let options = db.config_get().unwrap();
    assert!(options.starts_with("server.listen = "), "{options}");
    db.config_set("log.level=info\nserver.drain_timeout=7s").unwrap();
    let options = db.config_get().unwrap();
    assert!(options.contains("\nlog.level = info\n"), "{options}");
    assert!(options.contains("\nserver.drain_timeout = 7s\n"), "{options}");
    assert!(matches!(db.config_set("memory.size=1g"), Err(Error::Invalid(text))
        if text.contains("memory.size needs a restart")));
    assert!(matches!(db.config_set("a\0b"), Err(Error::Invalid(_))));
    db.config_set("log.level=notice\nserver.drain_timeout=5s").unwrap();
    match db.config_rewrite() {
        Ok(text) => assert!(text.contains(" options written"), "{text}"),
        Err(Error::Invalid(text)) => assert!(text.contains("without a file"), "{text}"),
        Err(error) => panic!("{error}"),
    }
}

fn tenants(db: &kvd::Client) {
    let list = db.tenant_list().unwrap();
    assert!(list.starts_with("name=default "), "{list}");
    assert!(matches!(db.tenant_drop("nobody"), Err(Error::NotFound(_))));
    assert!(matches!(db.tenant_resize("nobody", 1 << 25), Err(Error::NotFound(_))));
    assert!(matches!(db.tenant_create("not allowed", 1 << 25), Err(Error::Invalid(_))));
    assert!(matches!(db.tenant_create("big", 1 << 34), Err(Error::NoSpace(_))));
    db.tenant_create("rust", 32 << 20).unwrap();
    assert!(matches!(db.tenant_create("rust", 32 << 20), Err(Error::Exists(_))));
    let of_tenant = options().tenant("rust").open(&url()).unwrap();
    assert_eq!(of_tenant.info().tenant, "rust");
    of_tenant.put("admin/tenant", "x").unwrap();
    assert_eq!(db.get("admin/tenant").unwrap(), None);
    db.tenant_resize("rust", 48 << 20).unwrap();
    assert!(of_tenant.get("admin/tenant").unwrap().is_some());
    drop(of_tenant);
    db.tenant_drop("rust").unwrap();
    assert!(!db.tenant_list().unwrap().contains("name=rust"));
}

/// The server's clock advances, and keys expire by it.
fn clock(db: &kvd::Client) {
    db.ping().unwrap();
    let before_s = db.clock_ns().unwrap() / 1_000_000_000;
    let ttl = Some(Duration::from_secs(1000));
    db.put_with("admin/clock", "x", &PutArgs { ttl, ..Default::default() }).unwrap();
    let expires_s = u64::from(db.get("admin/clock").unwrap().unwrap().item.expires_s.unwrap());
    db.ping().unwrap();
    let after_s = db.clock_ns().unwrap() / 1_000_000_000;
    assert!((before_s + 999..=after_s + 1002).contains(&expires_s), "{expires_s}");
}

#[test]
fn administration() {
    let db = open();
    clock(&db);
    let stats = db.server_stats().unwrap();
    assert!(stats.lines().all(|line| line.contains(' ')), "{stats}");
    assert!(stats.contains("\nconnections "), "{stats}");
    connections(&db);
    if db.info().device_kind == "softnic" {
        // For root on the Unix socket.
        config(&db);
        tenants(&db);
    }
    flushes(&db);
}
