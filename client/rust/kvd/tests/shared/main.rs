// SPDX-License-Identifier: MIT
//! Tests that may run beside each other, in one process and on one server. (The others in the
//! folder above need a process of their own, or a server that nobody else uses.)

#[path = "../common/mod.rs"]
mod common;
mod futures;
mod many;
mod memory;
mod one;
mod scopes;
mod uses;
