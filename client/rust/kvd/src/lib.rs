// SPDX-License-Identifier: MIT
//! Client of kvd, a key-value store server for RDMA networks.
//!
//! A GET reads the server's memory with one-sided RDMA READs and costs the server no CPU. The
//! server's software device makes that work without RDMA hardware, too.
//!
//! ```no_run
//! # fn main() -> kvd::Result<()> {
//! let db = kvd::Client::open(&kvd::default_url())?;
//! db.put("name", "Ada")?;
//! assert_eq!(db.get("name")?.as_deref(), Some(&b"Ada"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! | for | use |
//! |---|---|
//! | one operation after another | [`Client`] |
//! | many keys at once | [`Client::get_many`], [`Client::exists_many`] |
//! | many operations under way that borrow their memory | [`Client::scope`] |
//! | futures, on any executor | [`Client::into_async`], [`aio`] |
//! | values that are not copied | [`Client::alloc`], [`Client::register`] |
//! | all keys | [`Client::scan`] |
//! | how often keys are used | [`Client::scan_uses_some`] |
//! | several servers as one store | [`Client::open`] with a fleet's URL, [`Client::fleet_info`] |
//!
//! The manual is libkvd(3): guarantees (linearizable per key, exactly once), expiry, and what
//! happens when a connection is lost. This crate adds:
//!
//! - A client is [`Send`] but not [`Sync`], as a handle belongs to one thread at a time.
//! - Safe code can't reach memory that the device may still write: the operation owns it, or
//!   borrows it for as long as it may be under way. Leaking a guard does not change that.
//! - A panic in a function that the library calls does not unwind through the library.
//! - After fork(2), calls on the parent's clients fail in the child, and harm neither process.
#![deny(missing_docs)]
#![warn(missing_debug_implementations, unreachable_pub)]
#![allow(unsafe_op_in_unsafe_fn)]

pub use kvd_sys as sys;

mod admin;
pub mod aio;
mod buffer;
mod change;
mod client;
mod error;
mod fleet;
mod hooks;
mod item;
mod many;
mod memory;
mod observe;
mod operation;
mod options;
mod read;
mod scan;
mod scope;
mod uses;

pub use admin::Flush;
pub use aio::{AsyncClient, Driver, Run, Submitted, Turn};
pub use buffer::{Buffer, BufferMut};
pub use change::Counted;
pub use client::{Client, Info};
pub use error::{Error, Result};
pub use fleet::{FleetInfo, FleetMember, FleetShard};
pub use hooks::{set_log, unset_log, LogLevel, TraceEnd, TraceEvent};
pub use item::{Initial, Item, Priority, PutArgs, PutMode, Value};
pub use many::{GetRequest, RangeRequest};
pub use memory::{Allocated, Memory, MemoryInfo, Piece};
pub use observe::{
    process_op_stats, process_stats, process_stats_forget, process_stats_text, OpCode, OpStats,
    Path, Stats, StatsFormat, Times,
};
pub use options::{default_url, version, Options};
pub use scan::{Cursor, Entry, OwnedEntry, Scan, ScanArgs};
pub use scope::{Scope, Ticket};
pub use uses::{Use, Used};

/// The longest key, in bytes; the shortest has 1.
pub const KEY_MAX: usize = sys::KVD_KEY_MAX as usize;
/// The longest value that any server can be configured for, in bytes.
pub const VALUE_MAX: usize = sys::KVD_VALUE_MAX as usize;
