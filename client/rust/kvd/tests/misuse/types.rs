// SPDX-License-Identifier: MIT
//! Misuse that the types forbid: it compiles but for the lines that say which error they are.
//! `tests/system/rust.sh` of kvd compares them with what the compiler says.

use kvd::{AsyncClient, BufferMut, Client, LogLevel};
use std::cell::Cell;
use std::rc::Rc;
use std::thread;

fn shares_a_client(db: &Client) {
    thread::scope(|threads| {
        threads.spawn(|| db.ping()); // error[E0277]
    });
}

fn sends_a_reference_to_a_client(db: &Client) {
    fn sent<T: Send>(_: T) {}
    sent(db); // error[E0277]
}

fn sends_a_ticket(db: &Client) {
    db.scope(|scope| {
        let ticket = scope.ping();
        thread::scope(|threads| {
            threads.spawn(move || ticket.wait()); // error[E0277]
        });
    });
}

fn shares_a_scope(db: &Client) {
    db.scope(|scope| {
        thread::scope(|threads| {
            threads.spawn(|| scope.poll()); // error[E0277]
        });
    });
}

fn traces_to_what_stays_in_its_thread(db: &Client, count: Rc<Cell<u32>>) {
    let _ = db.trace(move |_| count.set(count.get() + 1)); // error[E0277]
}

fn logs_to_what_can_not_be_shared(count: Cell<u32>) {
    let _ = kvd::set_log(LogLevel::Info, move |_, _| count.set(count.get() + 1)); // error[E0277]
}

struct Local(Rc<u32>, Vec<u8>);

// SAFETY: as of the vector.
unsafe impl BufferMut for Local {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        self.1.bytes_mut()
    }
}

/// The driver, in any thread, may free it.
fn gives_a_future_what_stays_in_its_thread(db: &AsyncClient) {
    drop(db.get_into("name", Local(Rc::new(0), vec![0; 10]))); // error[E0277]
}

fn registers_what_moves(db: &Client) {
    let _ = db.register([0u8; 8192]); // error[E0277]
}

fn reads_to_what_moves(db: &Client) {
    db.scope(|scope| drop(scope.get("name", [0u8; 10]))); // error[E0277]
}

fn reads_to_what_is_shared(db: &Client, bytes: &[u8]) {
    db.scope(|scope| drop(scope.get("name", bytes))); // error[E0277]
}
