// SPDX-License-Identifier: MIT
//! Misuse of memory that an operation has, as types.rs beside this file.

use kvd::{AsyncClient, Client, Cursor, GetRequest, Memory, ScanArgs};
use std::ops::ControlFlow;

fn reads_twice_to_one_buffer(db: &Client, buffer: &mut [u8]) {
    db.scope(|scope| {
        let one = scope.get("one", &mut buffer[..]);
        let two = scope.get("two", &mut buffer[..]); // error[E0499]
        drop((one.wait(), two.wait()));
    });
}

fn drops_the_buffer_of_an_operation(db: &Client) {
    let mut buffer = vec![0; 100];
    db.scope(|scope| {
        let ticket = scope.get("name", &mut buffer);
        buffer = Vec::new(); // error[E0506]
        drop(ticket.wait());
    });
}

fn drops_the_buffer_of_a_leaked_ticket(db: &Client) {
    let mut buffer = vec![0; 100];
    db.scope(|scope| {
        std::mem::forget(scope.get("name", &mut buffer));
        buffer = Vec::new(); // error[E0506]
    });
}

fn uses_a_buffer_that_it_gave(db: &Client) {
    let buffer = vec![0; 100];
    db.scope(|scope| {
        let ticket = scope.get("name", buffer);
        println!("{:?}", buffer); // error[E0382]
        drop(ticket.wait());
    });
}

fn uses_registered_memory_that_an_operation_has(db: &Client, mut memory: Memory) {
    db.scope(|scope| {
        let ticket = scope.get("name", &mut memory[..]);
        memory[0] = 1; // error[E0499]
        drop(ticket.wait());
    });
}

fn ends_a_registration_that_an_operation_uses(db: &Client, mut memory: Memory, other: Memory) {
    db.scope(|scope| {
        let ticket = scope.put("name", &memory[..]);
        memory = other; // error[E0506]
        drop(ticket.wait());
    });
}

fn waits_twice(db: &Client) {
    db.scope(|scope| {
        let ticket = scope.ping();
        drop(ticket.wait());
        drop(ticket.wait()); // error[E0382]
    });
}

fn keeps_a_ticket<'a>(db: &'a Client, kept: &mut Option<kvd::Ticket<'a, (), ()>>) {
    db.scope(|scope| {
        *kept = Some(scope.ping()); // error[E0521]
    });
}

fn drops_the_client_of_a_scope(db: Client) {
    db.scope(|scope| { // error[E0505]
        drop(scope.ping());
        drop(db);
    });
}

fn uses_a_client_that_it_gave(db: Client) {
    let futures = db.into_async();
    drop(db.ping()); // error[E0382]
    drop(futures);
}

fn uses_the_buffer_of_a_request(db: &Client, value: &mut [u8]) {
    let mut requests = [GetRequest::new("name", value)];
    value[0] = 1; // error[E0503]
    drop(db.get_many(&mut requests));
}

fn lends_a_future_its_buffer(db: &AsyncClient) {
    let mut buffer = vec![0; 100];
    drop(db.get_into("name", &mut buffer[..])); // error[E0597]
}

fn keeps_a_future_longer_than_its_client(db: AsyncClient) {
    let future = db.get_into("name", vec![0; 100]);
    drop(db); // error[E0505]
    drop(future);
}

fn keeps_what_was_registered_during_a_call(db: &Client, memory: &mut [u8]) {
    let mut kept = None;
    let _ = db.with_registered(memory, |memory| {
        kept = Some(memory); // error[E0521]
    });
    drop(kept);
}

fn uses_memory_that_is_registered_during_a_call(db: &Client, memory: &mut [u8]) {
    let _ = db.with_registered(memory, |_| { // error[E0501]
        memory[0] = 1;
    });
}

fn keeps_what_a_scan_delivers(db: &mut Client) {
    let (mut kept, mut cursor) = (None, Cursor::START);
    let _ = db.scan_some(&mut cursor, &ScanArgs::default(), |entry| {
        kept = Some(entry.key); // error[E0521]
        ControlFlow::Continue(())
    });
    drop(kept);
}
