// SPDX-License-Identifier: MIT
//! A child of fork(2) has the parent's clients, and can't use them. One test: it forks.

mod common;

use common::executor::poll_once;
use common::open;
use kvd::{Error, PutArgs};
use std::os::raw::c_int;
use std::panic;

extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn alarm(seconds: u32) -> u32;
}

#[test]
fn a_child_leaves_its_parents_clients_alone() {
    for polls in [false, true] {
        fork_with_clients(polls);
    }
}

/// `polls`: whether the child polls for its operations before it waits for them.
fn fork_with_clients(polls: bool) {
    let db = open();
    let memory = db.register(vec![1u8; 1 << 16]).map_err(|(error, _)| error).unwrap();
    let mut buffer = vec![0; 100];
    db.put("fork/key", "value").unwrap();
    let (tasks, mut driver) = open().into_async().unwrap();
    let mut futures: Vec<_> = (0..50)
        .map(|i| tasks.put_from(format!("fork/future/{i}"), vec![1; 1 << 16], &PutArgs::default()))
        .map(Result::unwrap)
        .collect();
    assert!(futures.iter_mut().all(|future| poll_once(future).is_pending()));
    driver.turn().unwrap();
    let child = db.scope(|scope| {
        let ticket = scope.get("fork/key", &mut buffer[..]);
        let puts: Vec<_> =
            (0..50).map(|i| scope.put(format!("fork/put/{i}"), vec![1; 1 << 16])).collect();
        scope.poll();
        // SAFETY: the child ends with _exit() below.
        let child = unsafe { fork() };
        if child == 0 {
            // The thread that forked is the child's only one: if it ends by a panic, the child ends
            // as if all were well.
            // SAFETY: it ends the child.
            panic::set_hook(Box::new(|_| unsafe { _exit(2) }));
            // SAFETY: it ends the child if it hangs.
            unsafe { alarm(120) };
        }
        if child == 0 && polls {
            scope.poll();
            assert!(ticket.has_ended(), "it is in flight in the child");
        }
        let (result, _) = ticket.wait();
        let is_lost = matches!(result, Err(Error::Disconnected(_)));
        assert!(!is_lost || child == 0, "{result:?}");
        for put in puts {
            let (result, _) = put.wait();
            assert!(result.is_ok() || child == 0, "{result:?}");
        }
        child
    });
    if child == 0 {
        let lost = matches!(db.get("fork/key"), Err(Error::Disconnected(_)));
        db.scope(|scope| drop(scope.put("fork/key", "of the child")));
        let lost = lost && matches!(driver.turn(), Err(Error::Disconnected(_)));
        let lost = lost && futures.iter_mut().all(|future| poll_once(future).is_ready());
        drop(driver);
        drop(memory);
        drop(db);
        // SAFETY: it ends the child without the test harness.
        unsafe { _exit(if lost { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the child is this process' own.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child's status");
    assert_eq!(&*db.get("fork/key").unwrap().unwrap(), b"value");
    assert_eq!(memory.into_inner().unwrap(), vec![1; 1 << 16]);
}
