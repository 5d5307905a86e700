// SPDX-License-Identifier: MIT
//! An arena that is registered once, as a KV cache of an LLM has it: blocks of it are stored from
//! where they lie, and read to where they are wanted, many at a time, without a copy.
//!
//! Usage: `cargo run --example zero_copy [URL]`
#![allow(clippy::needless_collect)] // all have to begin before one is waited for

use kvd::{Client, Error};

const BLOCK_BYTES: usize = 256 << 10;
const BLOCKS: usize = 16;

/// What a model would have computed for it.
fn compute(number: usize, block: &mut [u8]) {
    for (i, byte) in block.iter_mut().enumerate() {
        *byte = (i * 31 + number) as u8;
    }
}

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(kvd::default_url);
    let db = Client::open(&url)?;
    let mut arena = db.alloc(2 * BLOCKS * BLOCK_BYTES)?;
    let (stored, wanted) = arena.split_at_mut(BLOCKS * BLOCK_BYTES);

    // Each block is borrowed by its operation, until the scope ends: no other code can change it.
    for (i, block) in stored.chunks_mut(BLOCK_BYTES).enumerate() {
        compute(i, block);
    }
    db.scope(|scope| -> Result<(), Error> {
        let blocks = stored.chunks(BLOCK_BYTES).enumerate();
        let puts: Vec<_> =
            blocks.map(|(i, block)| scope.put(format!("block-{i}"), block)).collect();
        puts.into_iter().try_for_each(|put| put.wait().0.map(drop))
    })?;

    let wanted = &mut wanted[..BLOCKS * BLOCK_BYTES];
    db.scope(|scope| -> Result<(), Error> {
        let blocks = wanted.chunks_mut(BLOCK_BYTES).enumerate();
        let gets: Vec<_> =
            blocks.map(|(i, block)| scope.get(format!("block-{i}"), block)).collect();
        gets.into_iter().try_for_each(|get| get.wait().0.map(drop))
    })?;
    assert!(stored == wanted);
    println!("{BLOCKS} blocks stored, and read back");
    println!("{} MiB moved without a copy", db.stats().direct_bytes >> 20);
    Ok(())
}
