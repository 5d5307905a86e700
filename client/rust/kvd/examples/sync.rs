// SPDX-License-Identifier: MIT
//! One operation after the other: what each returns, and what goes wrong.
//!
//! Usage: `cargo run --example sync [URL]`

use kvd::{Client, Error, Initial, PutArgs, PutMode};
use std::time::Duration;

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(kvd::default_url);
    let db = Client::open(&url)?;

    let version = db.put("name", "Ada")?;
    if let Some(value) = db.get("name")? {
        println!("name is {}", String::from_utf8_lossy(&value));
    }

    // Only if nobody has changed it since.
    let args = PutArgs { mode: PutMode::IfVersion(version), ..Default::default() };
    db.put_with("name", "Ada Lovelace", &args)?;
    match db.put_with("name", "Grace", &args) {
        Err(Error::Exists(text)) => println!("the second change with the old version: {text}"),
        other => println!("unexpected: {other:?}"),
    }

    // A counter that is gone after a minute without a visit.
    let ttl = Some(Duration::from_secs(60));
    db.delete("visits")?;
    for _ in 0..3 {
        db.incr("visits", 1, Some(&Initial { number: 1, ttl, ..Default::default() }))?;
        db.touch("visits", ttl)?;
    }
    if let Some(value) = db.get("visits")? {
        println!("visits: {}", String::from_utf8_lossy(&value));
    }
    println!("nobody: {:?}", db.get("nobody")?);
    Ok(())
}
