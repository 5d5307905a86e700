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

/// Captured by a logger: its drop opens a client.
struct Opens;

impl Drop for Opens {
    fn drop(&mut self) {
        open().ping().unwrap();
    }
}

type Lines = Arc<Mutex<Vec<(LogLevel, String)>>>;

fn log() -> Lines {
    let lines = Lines::default();
    // Each logger replaces the previous one, which is freed; the last level counts.
    let (first, second) = <(Lines, Lines)>::default();
    for (level, lines) in [(LogLevel::Error, &first), (LogLevel::Warn, &second)] {
        let log = lines.clone();
        kvd::set_log(level, move |level, text| log.lock().unwrap().push((level, text.into())))
            .unwrap();
        assert!(matches!(Client::open("softnic:///nowhere"), Err(Error::Unreachable(_))));
    }
    kvd::unset_log().unwrap();
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    assert!(first.lock().unwrap().is_empty(), "{first:?}");
    assert!(matches!(second.lock().unwrap()[..], [(LogLevel::Warn, _)]), "{second:?}");
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

/// A tracer is freed when another one takes its place, and when it is refused.
fn tracers_are_freed(db: &Client) {
    let counts = [(); 3].map(|()| Arc::new(()));
    let tracer = |which: usize| {
        let inside = counts[which].clone();
        move |_: &TraceEvent<'_>| assert_eq!(Arc::strong_count(&inside), 2)
    };
    let alive = || counts.iter().map(|count| Arc::strong_count(count) - 1).collect::<Vec<_>>();
    db.trace(tracer(0)).unwrap();
    db.ping().unwrap();
    assert_eq!(alive(), [1, 0, 0]);
    db.trace(tracer(1)).unwrap();
    db.ping().unwrap();
    assert_eq!(alive(), [0, 1, 0]);
    db.put("hooks/freed", vec![0; 1 << 20]).unwrap();
    db.scope(|scope| {
        let gets = [(); 8].map(|()| scope.get("hooks/freed", vec![0; 1 << 20]));
        gets[0].cancel(); // submits
        let refused = db.trace(tracer(2));
        if matches!(refused, Err(Error::Busy(_))) {
            assert_eq!(alive(), [0, 1, 0]);
        } else {
            refused.unwrap();
            assert_eq!(alive(), [0, 0, 1], "they were faster");
        }
    });
    db.untrace().unwrap();
    assert_eq!(alive(), [0, 0, 0]);
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
            assert!(matches!(db.get("hooks/own"), Err(Error::Invalid(_))));
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
        assert_eq!(db.get("hooks/nobody"), Ok(None));
        assert_eq!(*refused.lock().unwrap(), 10, "a GET in the trace of a GET");
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
    assert_eq!((warm.queue.count, warm.service.count), (warm.count, warm.count));
    assert!(db.op_stats(OpCode::Other(99), Path::Warm).is_err());
    assert!(db.latency(OpCode::Put, 0.5).as_nanos() > 0);
    let text = db.stats_text(StatsFormat::Lines).unwrap();
    assert!(text.contains("\nget_warm_count "), "{text}");
    let (sum, open) = kvd::process_stats();
    assert!(open == 1 && sum.gets >= 20, "{open} {sum:?}");
    assert!(kvd::process_op_stats(OpCode::Get, Path::Warm).unwrap().count >= warm.count);
    let text = kvd::process_stats_text(StatsFormat::Prometheus).unwrap();
    assert!(text.contains("kvd_client_gets_total "), "{text}");
    assert!(!text.contains('\0') && text.ends_with('\n'));
    assert!(db.incr("hooks/stats", 1, None).is_err());
    assert_eq!(db.op_stats(OpCode::Incr, Path::Request).unwrap().errors, 1);
    db.observe(false).unwrap();
    db.get("hooks/stats").unwrap().unwrap();
    assert_eq!(db.op_stats(OpCode::Get, Path::Warm), Ok(warm), "it is observed still");
}

#[test]
fn hooks_and_statistics() {
    let lines = log();
    let db = open();
    let refused = Arc::new(());
    let inside = refused.clone();
    let result = kvd::set_log(LogLevel::Info, move |_, _| drop(inside.clone()));
    assert!(matches!(result, Err(Error::Busy(_))));
    assert_eq!(Arc::strong_count(&refused), 1, "the function was not freed");
    assert!(matches!(kvd::unset_log(), Err(Error::Busy(_))));
    traces(&db);
    panics(&db);
    tracers_are_freed(&db);
    statistics(&db);
    a_client_in_its_own_trace();
    // Registered memory keeps the log as it is, as long as it lives.
    let memory = db.register(vec![0u8; 4096]).map_err(|(error, _)| error).unwrap();
    let pieces = db.alloc(4096).unwrap().into_pieces(1000);
    drop(db);
    assert_ne!(kvd::process_stats().0.gets, 0);
    kvd::process_stats_forget().unwrap();
    assert_eq!(kvd::process_stats().0.gets, 0);
    memory.into_inner().unwrap();
    assert!(matches!(kvd::unset_log(), Err(Error::Busy(_))));
    drop(pieces);
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
