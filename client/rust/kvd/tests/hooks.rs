// SPDX-License-Identifier: MIT
//! Log lines, traces and statistics: one test, since the log is the process'.

mod common;

use common::{open, url};
use kvd::{Client, Error, LogLevel, OpCode, Path, StatsFormat, TraceEvent};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

/// What a panic carries: its drop panics, too.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in the drop of a panic");
    }
}

/// A logger's: its drop opens a client.
struct Opens;

impl Drop for Opens {
    fn drop(&mut self) {
        open().ping().unwrap();
    }
}

type Lines = Arc<Mutex<Vec<(LogLevel, String)>>>;

fn log() -> Lines {
    let lines = Lines::default();
    // What the next test would get panics: that must go no further.
    assert!(matches!(Client::open("softnic:///nowhere"), Err(Error::Unreachable(_))));
    let (log, opens) = (lines.clone(), Opens);
    kvd::set_log(LogLevel::Info, move |level, text| {
        let _ = &opens;
        log.lock().unwrap().push((level, text.to_string()));
        if level == LogLevel::Warn {
            resume_unwind(Box::new(Bomb));
        }
    })
    .unwrap();
    assert!(matches!(Client::open("softnic:///nowhere"), Err(Error::Unreachable(_))));
    lines
}

fn traces(db: &Client) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let trace = events.clone();
    db.trace(move |event: &TraceEvent<'_>| {
        let key = event.key.map(<[u8]>::to_vec);
        let end = event.end.clone().map(|end| (end.result.is_ok(), end.path, end.reads));
        trace.lock().unwrap().push((event.op, key, event.submitted, end));
    })
    .unwrap();
    db.put("hooks/trace", "x").unwrap();
    db.get("hooks/trace").unwrap().unwrap();
    assert!(db.get("hooks/nobody").unwrap().is_none());
    db.scope(|scope| {
        let ticket = scope.ping();
        scope.poll();
        if !ticket.has_ended() {
            assert!(matches!(db.untrace(), Err(Error::Busy(_))));
        }
        ticket.wait().0.unwrap();
    });
    db.untrace().unwrap();
    db.ping().unwrap();
    let events = events.lock().unwrap();
    assert_eq!(events.len(), 8, "{events:?}");
    let key = Some(b"hooks/trace".to_vec());
    assert_eq!(events[0], (OpCode::Put, key.clone(), false, None));
    assert_eq!(events[1].3, Some((true, Path::Request, 0)));
    assert_eq!(events[2], (OpCode::Get, key, false, None));
    assert!(matches!(events[3].3, Some((true, Path::Warm | Path::Cold, 1..=2))));
    assert!(matches!(events[5].3, Some((false, _, 1..))), "{events:?}");
    assert_eq!(events[6], (OpCode::Ping, None, true, None));
}

fn panics(db: &Client) {
    db.trace(|_| resume_unwind(Box::new(Bomb))).unwrap();
    db.ping().unwrap();
    db.scope(|scope| scope.ping().wait().0.unwrap());
    db.untrace().unwrap();
    db.trace(|_| panic!("never called")).unwrap(); // freed with the client
}

thread_local! {
    static CLIENT: RefCell<Option<Client>> = RefCell::default();
}

/// A tracer may reach its client: what it calls there is refused, and ends.
fn a_client_in_its_own_trace() {
    let refused = Arc::new(Mutex::new(0));
    let count = refused.clone();
    let trace = move |_: &TraceEvent<'_>| {
        CLIENT.with(|slot| {
            let slot = slot.borrow();
            let db = slot.as_ref().unwrap();
            assert!(matches!(db.put("hooks/own", "x"), Err(Error::Invalid(_))));
            assert!(matches!(db.get_into("hooks/own", &mut [0]), Err(Error::Invalid(_))));
            assert!(matches!(db.untrace(), Err(Error::Invalid(_))));
            assert!(matches!(db.trace(|_| ()), Err(Error::Invalid(_))));
            db.scope(|scope| {
                assert!(matches!(scope.ping().wait().0, Err(Error::Invalid(_))));
                drop(scope.get("hooks/own", vec![0; 1]));
                scope.poll();
            });
            *count.lock().unwrap() += 1;
        })
    };
    CLIENT.with(|slot| *slot.borrow_mut() = Some(open()));
    CLIENT.with(|slot| {
        let slot = slot.borrow();
        let db = slot.as_ref().unwrap();
        db.trace(trace).unwrap();
        db.ping().unwrap();
        assert_eq!(*refused.lock().unwrap(), 2);
        db.scope(|scope| {
            let tickets = [scope.ping(), scope.ping(), scope.ping()];
            scope.poll();
            tickets.map(|ticket| ticket.wait().0.unwrap());
        });
        assert_eq!(*refused.lock().unwrap(), 8);
    });
    CLIENT.with(|slot| *slot.borrow_mut() = None);
    assert_eq!(Arc::strong_count(&refused), 1, "the tracer was not freed");
}

fn statistics(db: &Client) {
    let before = db.stats();
    db.observe(true).unwrap();
    db.put("hooks/stats", "x").unwrap();
    for _ in 0..20 {
        db.get("hooks/stats").unwrap().unwrap();
    }
    let stats = db.stats();
    assert_eq!((stats.puts - before.puts, stats.gets - before.gets), (1, 20));
    assert_eq!(stats.iter().find(|(name, _)| *name == "gets"), Some(("gets", stats.gets)));
    let size = std::mem::size_of::<kvd::sys::kvd_stats>() / 8;
    assert_eq!(stats.iter().count(), size, "a counter is missing");
    let warm = db.op_stats(OpCode::Get, Path::Warm).unwrap();
    assert!(warm.count >= 19 && warm.errors == 0 && warm.service.p50_ns > 0, "{warm:?}");
    assert!(db.op_stats(OpCode::Other(99), Path::Warm).is_err());
    assert!(db.latency(OpCode::Put, 0.5).as_nanos() > 0);
    let text = db.stats_text(StatsFormat::Lines).unwrap();
    assert!(text.contains("\nget_warm_count "), "{text}");
    let (sum, open) = kvd::process_stats();
    assert!(open == 1 && sum.gets >= 20, "{open} {sum:?}");
    assert!(kvd::process_op_stats(OpCode::Get, Path::Warm).unwrap().count >= warm.count);
    let text = kvd::process_stats_text(StatsFormat::Prometheus).unwrap();
    assert!(text.contains("kvd_client_gets_total "), "{text}");
    db.observe(false).unwrap();
}

#[test]
fn hooks_and_statistics() {
    let lines = log();
    let db = open();
    assert!(matches!(kvd::set_log(LogLevel::Info, |_, _| ()), Err(Error::Busy(_))));
    assert!(matches!(kvd::unset_log(), Err(Error::Busy(_))));
    traces(&db);
    panics(&db);
    statistics(&db);
    a_client_in_its_own_trace();
    drop(db);
    kvd::process_stats_forget().unwrap();
    let seen = lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    let place = url();
    let place = place.rsplit('/').next().unwrap();
    assert!(seen.iter().any(|(level, _)| *level == LogLevel::Warn), "{seen:?}");
    let opened =
        |(level, text): &(LogLevel, String)| *level == LogLevel::Info && text.contains(place);
    assert!(seen.iter().any(opened), "{seen:?}");
    kvd::unset_log().unwrap();
    assert_eq!(Arc::strong_count(&lines), 1, "the function was not freed");
}
