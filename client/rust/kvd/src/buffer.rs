// SPDX-License-Identifier: MIT
//! Memory that an operation may keep while it is under way.

use std::sync::Arc;

/// Memory from which the value of an operation is stored.
///
/// # Safety
///
/// [`Buffer::bytes`] returns a pointer to that many bytes. They stay in place, valid and unchanged,
/// until the buffer is dropped or used again, even if it is moved meanwhile.
pub unsafe trait Buffer {
    /// Address and number of the bytes.
    fn bytes(&self) -> (*const u8, usize);
}

/// Memory to which the value of an operation is read.
///
/// # Safety
///
/// As for [`Buffer`], and nobody else reads or writes these bytes until the buffer is dropped or
/// used again.
pub unsafe trait BufferMut {
    /// Address and number of the bytes.
    fn bytes_mut(&mut self) -> (*mut u8, usize);
}

macro_rules! buffers {
    ($([$($generic:tt)*] $type:ty,)*) => {
        $(
            // SAFETY: the bytes are borrowed, or on the heap.
            unsafe impl<$($generic)*> Buffer for $type {
                fn bytes(&self) -> (*const u8, usize) {
                    let bytes: &[u8] = self.as_ref();
                    (bytes.as_ptr(), bytes.len())
                }
            }
        )*
    };
}

macro_rules! buffers_mut {
    ($([$($generic:tt)*] $type:ty,)*) => {
        $(
            // SAFETY: the bytes are exclusively borrowed, or on the heap and owned.
            unsafe impl<$($generic)*> BufferMut for $type {
                fn bytes_mut(&mut self) -> (*mut u8, usize) {
                    let bytes: &mut [u8] = self.as_mut();
                    (bytes.as_mut_ptr(), bytes.len())
                }
            }
        )*
    };
}

buffers! {
    ['a] &'a [u8],
    ['a] &'a mut [u8],
    ['a] &'a str,
    ['a, const N: usize] &'a [u8; N],
    ['a] &'a Vec<u8>,
    [] Vec<u8>,
    [] Box<[u8]>,
    [] Arc<[u8]>,
    [] String,
}

buffers_mut! {
    ['a] &'a mut [u8],
    ['a, const N: usize] &'a mut [u8; N],
    ['a] &'a mut Vec<u8>,
    [] Vec<u8>,
    [] Box<[u8]>,
}

/// The room that a vector has beyond its length, which may be uninitialized.
#[derive(Debug)]
pub(crate) struct Room(pub(crate) Vec<u8>);

// SAFETY: the room is on the heap and owned; bytes that are not initialized are only written.
unsafe impl BufferMut for Room {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        let room = self.0.spare_capacity_mut();
        (room.as_mut_ptr().cast(), room.len())
    }
}
