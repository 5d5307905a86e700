// SPDX-License-Identifier: MIT
//! The asynchronous client, on executors of these tests.
#![allow(clippy::needless_collect)] // all have to begin before one is waited for

use crate::common::executor::{
    block_on, park_on, poll_as, poll_once, run_all, wait_readable, Reactor, Task, Woken,
};
use crate::common::{open, options, pattern, url};
use kvd::{Driver, Error, Initial, PutArgs, Turn};
use std::future::Future;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const TASKS: usize = 1000;

#[test]
fn every_kind_of_operation() {
    let (db, mut driver) = open().into_async().unwrap();
    let hour = Some(Duration::from_secs(3600));
    block_on(&mut driver, async {
        assert_eq!(db.get("futures/nobody").await.unwrap(), None);
        let version = db.put("futures/name", "Ada").await.unwrap();
        let value = db.get("futures/name").await.unwrap().unwrap();
        assert_eq!((&*value, value.item.version), (&b"Ada"[..], version));
        assert_eq!(db.exists("futures/name").await.unwrap(), Some(value.item));
        assert_eq!(db.exists("futures/nobody").await.unwrap(), None);
        let args = PutArgs { flags: 5, ..Default::default() };
        let (version, bytes) = db.put_from("futures/name", vec![1; 9], &args).unwrap().await;
        assert_eq!(bytes, [1; 9]);
        assert!(matches!(db.delete("futures/name", Some(1)).await, Err(Error::Exists(_))));
        let (item, bytes) = db.get_into("futures/name", vec![0; 10]).await;
        assert_eq!((item.unwrap().flags, &bytes[..9]), (5, &[1; 9][..]));
        let (item, _) = db.get_by_request("futures/name", vec![0; 8]).await;
        assert!(matches!(item, Err(Error::Buffer { needed: 9, .. })));
        let (item, _) = db.get_and_touch("futures/name", hour, vec![0; 9]).unwrap().await;
        assert!(item.unwrap().expires_s.is_some());
        assert_eq!(db.touch("futures/name", None).await.unwrap(), version.unwrap());
        assert!(db.delete("futures/name", None).await.unwrap());
        assert!(!db.delete("futures/name", None).await.unwrap());
        let first = Initial { number: 7, ..Default::default() };
        assert_eq!(db.incr("futures/number", 1, Some(&first)).await.unwrap().number, 7);
        assert_eq!(db.decr("futures/number", 2, None).await.unwrap().number, 5);
        assert!(db.delete("futures/number", None).await.unwrap());
        db.ping().await.unwrap();
        assert!(matches!(db.get("").await, Err(Error::Invalid(_))));
        let long = pattern(1, 100_000);
        db.put("futures/long", long.clone()).await.unwrap();
        assert_eq!(&*db.get("futures/long").await.unwrap().unwrap(), long);
        assert_eq!(db.with_client(|db| db.info().connection).unwrap(), "up");
    });
    drop(db);
    assert_eq!(driver.turn().unwrap(), Turn::Done);
}

#[test]
fn a_thousand_are_under_way() {
    let (db, mut driver) = open().into_async().unwrap();
    let done = AtomicUsize::new(0);
    let tasks = (0..TASKS)
        .map(|i| -> Task<'_> {
            let (db, done) = (&db, &done);
            Box::pin(async move {
                let key = format!("futures/task/{i}");
                db.put(&key, pattern(i, i)).await.unwrap();
                assert_eq!(&*db.get(&key).await.unwrap().unwrap(), pattern(i, i));
                done.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    run_all(&mut driver, tasks);
    assert_eq!(done.into_inner(), TASKS);
}

#[test]
fn what_was_begun_together_shares_messages() {
    const TOGETHER: usize = 32;
    let (db, mut driver) = open().into_async().unwrap();
    let requests = || db.with_client(|db| db.stats().requests).unwrap();
    let before = requests();
    let put = |i| db.put(format!("futures/together/{i}"), "x");
    let mut puts: Vec<_> = (0..TOGETHER).map(|i| Box::pin(put(i))).collect();
    assert!(puts.iter_mut().all(|put| poll_once(put).is_pending()));
    driver.turn().unwrap();
    let sent = requests() - before;
    assert!((1..TOGETHER as u64).contains(&sent), "{sent} messages");
    for put in puts {
        block_on(&mut driver, put).unwrap();
    }
}

/// A buffer that counts when it is dropped.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

// SAFETY: as of the vector.
unsafe impl kvd::BufferMut for Counted {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        self.0.bytes_mut()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn futures_that_are_dropped_or_leaked_free_their_buffers_at_their_end() {
    let (db, mut driver) = open().into_async().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let buffer = |bytes| Counted(vec![0; bytes], dropped.clone());
    block_on(&mut driver, db.put("futures/drop", pattern(2, 1 << 20))).unwrap();

    drop(db.get_into("futures/drop", buffer(10))); // never polled
    assert_eq!(dropped.load(Ordering::Relaxed), 1);

    let mut queued = db.get_into("futures/drop", buffer(1 << 20));
    assert!(poll_once(&mut queued).is_pending());
    drop(queued); // not submitted
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    driver.turn().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 2);

    // Nor does a change take effect whose future was dropped before its submission.
    let mut never = db.put_from("futures/never", vec![0; 1], &PutArgs::default()).unwrap();
    assert!(poll_once(&mut never).is_pending());
    drop(never);
    assert_eq!(block_on(&mut driver, db.get("futures/never")).unwrap(), None);

    for _ in 0..20 {
        let mut flying = db.get_into("futures/drop", buffer(1 << 20));
        assert!(poll_once(&mut flying).is_pending());
        driver.turn().unwrap();
        drop(flying);
    }
    let mut leaked = db.get_into("futures/drop", buffer(1 << 20));
    assert!(poll_once(&mut leaked).is_pending());
    driver.turn().unwrap();
    std::mem::forget(leaked);

    block_on(&mut driver, db.ping()).unwrap();
    drop(db);
    loop {
        match driver.turn().unwrap() {
            Turn::Done => break,
            Turn::Wait => wait_readable(&driver),
            _ => {}
        }
    }
    // The buffer of the leaked future is leaked.
    assert_eq!(dropped.load(Ordering::Relaxed), 22);
}

#[test]
fn a_driver_that_is_dropped_ends_all_that_is_in_flight() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (db, mut driver) = options().depth(1).open(&url()).unwrap().into_async().unwrap();
    block_on(&mut driver, db.put("futures/flying", pattern(3, 1 << 20))).unwrap();
    let get = |_| db.get_into("futures/flying", Counted(vec![0; 1 << 20], dropped.clone()));
    let mut gets: Vec<_> = (0..20).map(get).collect();
    assert!(gets.iter_mut().all(|get| poll_once(get).is_pending()));
    driver.turn().unwrap();
    let rest = gets.split_off(10);
    drop(gets);
    drop(driver);
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
    for mut get in rest {
        match poll_once(&mut get) {
            Poll::Ready((Ok(_) | Err(Error::Disconnected(_)), _)) => {}
            Poll::Ready((Err(error), _)) => panic!("{error:?}"),
            Poll::Pending => panic!("it is in flight still"),
        }
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 20);
}

#[test]
fn a_driver_that_is_dropped_ends_all() {
    let (db, mut driver) = open().into_async().unwrap();
    while driver.turn().unwrap() != Turn::Wait {}
    let mut flying = db.get_into("futures/nobody", vec![0; 1]);
    assert!(poll_once(&mut flying).is_pending());
    driver.turn().unwrap();
    let mut queued = db.get_into("futures/nobody", vec![1; 1]);
    assert!(poll_once(&mut queued).is_pending());
    let mut fresh = db.get_into("futures/nobody", vec![2; 1]);
    drop(driver);
    for (future, byte) in [(&mut queued, 1), (&mut fresh, 2)] {
        match poll_once(future) {
            Poll::Ready((Err(Error::Disconnected(_)), bytes)) => assert_eq!(bytes, [byte]),
            other => panic!("{other:?}"),
        }
    }
    match poll_once(&mut flying) {
        Poll::Ready((Err(Error::Disconnected(_) | Error::NotFound(_)), _)) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(db.with_client(|_| ()), Err(Error::Disconnected(_))));
}

/// A task that counts how often it is woken, and panics then.
#[derive(Default)]
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("in the waker")); // prints nothing
    }
}

#[test]
fn a_waker_that_panics_keeps_no_other_task_from_being_woken() {
    let (db, mut driver) = open().into_async().unwrap();
    let (panics, tasks) = (Arc::new(Panics::default()), Arc::new(Woken::default()));
    let mut futures: Vec<_> = (0..20).map(|_| db.get_into("futures/nobody", vec![0; 1])).collect();
    for (i, future) in futures.iter_mut().enumerate() {
        let waker = if i < 10 { Waker::from(panics.clone()) } else { Waker::from(tasks.clone()) };
        assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let (mut panicked, mut woken) = (false, 0);
    while panics.0.load(Ordering::Relaxed) + woken < 20 {
        let turn = catch_unwind(AssertUnwindSafe(|| driver.turn()));
        woken += tasks.take();
        match turn {
            Ok(Ok(Turn::Wait)) if panics.0.load(Ordering::Relaxed) + woken < 20 => {
                wait_readable(&driver);
            }
            Ok(turn) => assert!(matches!(turn, Ok(Turn::Again | Turn::Wait)), "{turn:?}"),
            Err(_) => panicked = true,
        }
    }
    assert!(panicked);
    assert_eq!((panics.0.load(Ordering::Relaxed), woken), (10, 10));
    for future in &mut futures {
        assert!(matches!(poll_once(future), Poll::Ready((Err(Error::NotFound(_)), _))));
    }
}

/// Turns until the task is woken, and waits for the descriptor meanwhile.
fn turn_until_woken(driver: &mut Driver, task: &Arc<Woken>) {
    loop {
        let turn = driver.turn().unwrap();
        match task.take() {
            0 if turn == Turn::Wait => wait_readable(driver),
            0 => assert_eq!(turn, Turn::Again),
            woken => return assert_eq!(woken, 1),
        }
    }
}

#[test]
fn the_last_waker_of_a_task_is_woken_when_its_operation_has_ended() {
    let (db, mut driver) = open().into_async().unwrap();
    let (first, last) = <(Arc<Woken>, Arc<Woken>)>::default();
    let mut future = db.get_into("futures/nobody", vec![0; 1]);
    assert!(poll_as(&mut future, &first).is_pending());
    assert!(poll_as(&mut future, &last).is_pending());
    turn_until_woken(&mut driver, &last);
    assert_eq!(first.take(), 0);
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (1, 1), "wakers are kept");
    assert!(matches!(poll_as(&mut future, &last), Poll::Ready((Err(Error::NotFound(_)), _))));
}

/// What wakes the task of a driver, which looks at nothing until then.
#[test]
fn the_driver_is_woken_for_all_that_it_has_to_do() {
    let (db, mut driver) = open().into_async().unwrap();
    let (before, runs, task) = <(Arc<Woken>, Arc<Woken>, Arc<Woken>)>::default();
    assert!(poll_as(&mut driver.run(|_| Poll::Pending), &before).is_pending());
    let mut flying = db.get_into("futures/nobody", vec![0; 1]);
    {
        let mut run = driver.run(|_| Poll::Pending);
        assert!(poll_as(&mut run, &runs).is_pending());
        assert!(poll_as(&mut flying, &task).is_pending());
        assert_eq!(runs.take(), 1, "an operation was begun");
        assert!(poll_as(&mut run, &runs).is_pending());
        drop(flying);
        let (ended, given_up) = (task.take(), runs.take());
        assert_eq!(ended + given_up, 1, "it has ended, or there is one to free");
        assert!(poll_as(&mut run, &runs).is_pending());
        db.with_client(|db| db.ping()).unwrap().unwrap();
        assert_eq!(runs.take(), 1, "the client was lent");
        assert!(poll_as(&mut run, &runs).is_pending());
        drop(db.clone());
        assert_eq!(runs.take(), 0);
    }
    park_on(async { assert!(poll_as(&mut db.get_into("x", vec![0; 1]), &task).is_pending()) });
    runs.take();
    drop(db);
    assert_eq!(runs.take(), 1, "the last client has gone");
    let reactor = Reactor::new(&driver);
    park_on(driver.run(|cx| reactor.poll_readable(cx))).unwrap();
    assert_eq!((before.take(), Arc::strong_count(&before)), (0, 1));
    assert_eq!(Arc::strong_count(&runs), 1);
}

#[test]
fn a_driver_that_always_has_something_to_do_lets_others_have_their_turn() {
    let (db, mut driver) = open().into_async().unwrap();
    let (task, mut asked) = (Arc::new(Woken::default()), 0);
    let run = |asked: &mut u32| {
        Poll::Ready({
            *asked += 1;
            Ok(())
        })
    };
    assert!(poll_as(&mut driver.run(|_| run(&mut asked)), &task).is_pending());
    assert!(asked > 1 && task.take() == 1, "{asked}");
    let failed = driver.run(|_| Poll::Ready(Err(std::io::ErrorKind::Other.into())));
    assert_eq!(park_on(failed).unwrap_err().kind(), std::io::ErrorKind::Other);
    drop(db);
    park_on(driver.run(|_| panic!("there is nothing to wait for"))).unwrap();
}

#[test]
fn calls_on_the_client_leave_the_driver_what_they_took_from_the_device() {
    let (db, mut driver) = open().into_async().unwrap();
    block_on(&mut driver, db.put("futures/taken", pattern(4, 100))).unwrap();
    let (runs, task) = <(Arc<Woken>, Arc<Woken>)>::default();
    let mut future = db.get_into("futures/taken", vec![0; 100]);
    assert!(poll_as(&mut future, &task).is_pending());
    driver.set_waker(&Waker::from(runs.clone()));
    assert!(driver.turn().is_ok());
    let woken_before = task.take();
    let ping = db.with_client(|db| db.scope(|scope| scope.ping().wait().0)).unwrap();
    ping.unwrap();
    assert_eq!(runs.take(), 1, "the driver sleeps on");
    if woken_before == 0 {
        turn_until_woken(&mut driver, &task);
    }
    let (item, bytes) = match poll_as(&mut future, &task) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it was woken too early"),
    };
    assert_eq!((item.unwrap().value_len, bytes), (100, pattern(4, 100)));
}

#[test]
fn a_driver_is_dropped_whose_tracer_has_the_client() {
    let (db, driver) = open().into_async().unwrap();
    let (inside, waiting) = (db.clone(), db.clone());
    db.with_client(move |db| db.trace(move |_| drop(inside.clone()))).unwrap().unwrap();
    let mut future = waiting.get_into("futures/nobody", vec![0; 1]);
    assert!(poll_once(&mut future).is_pending());
    drop(driver); // and with it the tracer, and its client
    assert!(poll_once(&mut future).is_ready());
}

#[test]
fn values_in_pieces_of_registered_memory() {
    let db = open();
    let blocks = db.alloc(8 << 16).unwrap().into_pieces(1 << 16);
    let (db, mut driver) = db.into_async().unwrap();
    let value = pattern(7, 8 << 16);
    block_on(&mut driver, async {
        let (one, rest) = value.split_at(1000);
        let pieces = vec![one.to_vec(), rest.to_vec()];
        let put = db.put_vectored("futures/pieces", pieces, &PutArgs::default()).unwrap();
        let (version, pieces) = put.await;
        version.unwrap();
        assert!(pieces.concat() == value);
        let (item, blocks) = db.get_into_vectored("futures/pieces", blocks).await;
        assert_eq!(item.unwrap().value_len, value.len());
        assert!(blocks.iter().zip(value.chunks(1 << 16)).all(|(block, part)| **block == *part));
        let mut dropped = db.get_into_vectored("futures/pieces", blocks);
        assert!(poll_once(&mut dropped).is_pending());
        drop(dropped);
        db.ping().await.unwrap();
    });
    assert!(db.with_client(|db| db.stats().direct_bytes).unwrap() >= value.len() as u64);
}

#[test]
fn room_is_made_for_long_values_and_not_for_ever() {
    let (db, mut driver) = open().into_async().unwrap();
    let long = pattern(5, 100_000);
    block_on(&mut driver, async {
        db.put("futures/room/long", long.clone()).await.unwrap();
        db.put("futures/room/short", "x").await.unwrap();
        let gets = || db.with_client(|db| db.stats().gets).unwrap();
        for (short, tries) in [(0, 2), (60, 1), (0, 1), (70, 2)] {
            for _ in 0..short {
                let value = db.get("futures/room/short").await.unwrap().unwrap();
                assert!(value.data.capacity() < 100);
            }
            let before = gets();
            assert_eq!(&*db.get("futures/room/long").await.unwrap().unwrap(), long);
            assert_eq!(gets() - before, tries, "after {short} short ones");
        }
    });
}

#[test]
fn operations_have_deadlines() {
    let (db, mut driver) = open().into_async().unwrap();
    let late = db.get_into("futures/late", vec![0; 1]).timeout(Duration::from_nanos(1));
    let (result, _) = block_on(&mut driver, late);
    assert!(matches!(result, Err(Error::NotFound(_) | Error::Timeout(_))), "{result:?}");
}

/// Tasks of many threads use one connection, whose driver is a task of another thread; the reactor
/// that tells it of its descriptor is a third one.
#[test]
fn tasks_of_many_threads_share_a_connection() {
    let (db, mut driver) = open().into_async().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let db = db.clone();
            thread::spawn(move || {
                for i in 0..50 {
                    let key = format!("futures/thread/{t}");
                    park_on(db.put(&key, pattern(i, 100))).unwrap();
                    let value = park_on(db.get(&key)).unwrap().unwrap();
                    assert_eq!(&*value, pattern(i, 100));
                }
            })
        })
        .collect();
    drop(db);

    let reactor = Reactor::new(&driver);
    park_on(driver.run(|cx| reactor.poll_readable(cx))).unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn futures_may_be_sent() {
    fn sent<T: Send>(_: &T) {}
    fn shared<T: Send + Sync>(_: &T) {}
    let (db, driver) = open().into_async().unwrap();
    shared(&db);
    sent(&driver);
    sent(&db.get("futures/sent"));
    sent(&db.incr("futures/sent", 1, None));
    sent(&db.put("futures/sent", "x"));
    sent(&db.get_into("futures/sent", vec![0; 1]));
    sent(&open());
}
