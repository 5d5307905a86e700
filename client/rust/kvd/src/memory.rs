// SPDX-License-Identifier: MIT
//! Registered memory, which values are read to and stored from without a copy.

use crate::buffer::{Buffer, BufferMut};
use crate::error::{Error, Result};
use crate::hooks::LibraryUser;
use crate::{sys, Client};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

/// What backs the memory of [`Client::alloc`]: the library.
#[derive(Debug)]
pub struct Allocated(());

/// Registered memory, which derefs to its bytes.
///
/// All clients of the process that were opened with the same URL recognize buffers in registered
/// memory by their address. A GET uses the registration if the value is longer than 4 KiB and the
/// whole buffer lies in registered memory, a PUT if the value does not fit a message. Otherwise the
/// value is copied.
///
/// Registered memory may outlive the client. It owns its backing (`B`): a leaked `Memory` leaks the
/// backing, and does no other harm:
///
/// ```compile_fail,E0597
/// # fn main() -> kvd::Result<()> {
/// let db = kvd::Client::open(&kvd::default_url())?;
/// let mut block = [0u8; 8192];
/// let memory = db.register(&mut block[..]); // error: it does not live as long as the program
/// # Ok(())
/// # }
/// ```
///
/// [`Client::with_registered`] is for memory that is only borrowed.
pub struct Memory<B = Allocated> {
    mem: NonNull<sys::kvd_mem>,
    addr: NonNull<u8>,
    bytes: usize,
    // A pointer: moving a Box would claim that nothing else uses what the Box points to.
    backing: NonNull<B>,
    end: unsafe extern "C" fn(*mut sys::kvd_mem) -> sys::kvd_status,
    _user: LibraryUser,
}

// SAFETY: the bytes are owned; the registration may be ended by any thread.
unsafe impl<B: Send> Send for Memory<B> {}
// SAFETY: through a shared reference the bytes are only read, and the backing is not reached.
unsafe impl<B: Send> Sync for Memory<B> {}

/// The properties of registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Bytes that are registered.
    pub bytes: usize,
    /// Registrations with the device: more than 1 if the device limits their length.
    pub registrations: u32,
    /// How long registering took.
    pub register_time: Duration,
}

impl Client {
    /// Allocates at least `bytes` bytes of zeros and registers them, in the way that suits the
    /// device best. Do this once, when the program starts.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: 0 bytes. [`Error::NoMemory`]: the device can't register the
    /// memory (RLIMIT_MEMLOCK), or 64 registrations exist. [`Error::Disconnected`]: the
    /// connection was lost and the client does not connect again.
    pub fn alloc(&self, bytes: usize) -> Result<Memory> {
        let user = LibraryUser::new();
        let (mut addr, mut mem) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the handle is this thread's.
        self.check(unsafe { sys::kvd_alloc(self.as_raw(), bytes, &mut addr, &mut mem) })?;
        match (NonNull::new(mem), NonNull::new(addr)) {
            (Some(mem), Some(addr)) => Ok(Memory {
                mem,
                addr: addr.cast(),
                bytes,
                backing: NonNull::from(Box::leak(Box::new(Allocated(())))),
                end: sys::kvd_free,
                _user: user,
            }),
            _ => unreachable!("kvd_alloc() returned KVD_OK without memory"),
        }
    }

    /// Registers memory of the program, which the result owns.
    ///
    /// # Errors
    ///
    /// As [`Client::alloc`], with the buffer that was not registered.
    pub fn register<B: BufferMut + 'static>(&self, buffer: B) -> Result<Memory<B>, (Error, B)> {
        let mut backing = Box::new(buffer);
        let (addr, bytes) = backing.bytes_mut();
        let user = LibraryUser::new();
        match self.register_raw(addr, bytes) {
            Ok((mem, addr)) => Ok(Memory {
                mem,
                addr,
                bytes,
                backing: NonNull::from(Box::leak(backing)),
                end: sys::kvd_deregister,
                _user: user,
            }),
            Err(error) => Err((error, *backing)),
        }
    }

    fn register_raw(
        &self,
        addr: *mut u8,
        bytes: usize,
    ) -> Result<(NonNull<sys::kvd_mem>, NonNull<u8>)> {
        let mut mem = ptr::null_mut();
        // SAFETY: the handle is this thread's, and the memory stays until it is deregistered.
        self.check(unsafe { sys::kvd_register(self.as_raw(), addr.cast(), bytes, &mut mem) })?;
        match (NonNull::new(mem), NonNull::new(addr)) {
            (Some(mem), Some(addr)) => Ok((mem, addr)),
            _ => unreachable!("kvd_register() returned KVD_OK without memory"),
        }
    }

    /// Registers `memory`, calls `work` with it, and ends the registration.
    ///
    /// # Errors
    ///
    /// As [`Client::alloc`]: `work` was not called.
    pub fn with_registered<T>(
        &self,
        memory: &mut [u8],
        work: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T> {
        let (mem, addr) = self.register_raw(memory.as_mut_ptr(), memory.len())?;
        let _guard = Registered { mem, borrowed: PhantomData };
        // SAFETY: the memory is borrowed alone, by `memory`, which is not used meanwhile.
        Ok(work(unsafe { slice::from_raw_parts_mut(addr.as_ptr(), memory.len()) }))
    }
}

/// Ends a registration of borrowed memory, even after a panic. Only with_registered() has this
/// guard, so nothing can leak it.
struct Registered<'a> {
    mem: NonNull<sys::kvd_mem>,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory is registered. Operations that use it borrow it, and have ended.
        let status = unsafe { sys::kvd_deregister(self.mem.as_ptr()) };
        // In a child of fork(2) the registration is the parent's, and no memory is shared.
        if status != sys::KVD_OK && status != sys::KVD_ERR_DISCONNECTED {
            // The borrow would end while the device may still write.
            eprintln!(
                "kvd: borrowed memory could not be deregistered: {}",
                Error::of_status(status, 0)
            );
            std::process::abort();
        }
    }
}

impl<B> Memory<B> {
    /// The properties of the memory.
    pub fn info(&self) -> MemoryInfo {
        let mut raw = MaybeUninit::<sys::kvd_mem_info>::zeroed();
        // SAFETY: zeros are valid, and the registration has not ended.
        let raw = unsafe {
            sys::kvd_mem_info(self.mem.as_ptr(), raw.as_mut_ptr());
            raw.assume_init()
        };
        MemoryInfo {
            bytes: raw.bytes,
            registrations: raw.registrations,
            register_time: Duration::from_nanos(raw.register_ns),
        }
    }

    /// Divides the memory into pieces of `bytes` bytes; the last may be shorter. Each piece has its
    /// own owner, so operations can use some pieces while the program uses others. The registration
    /// ends with the last piece.
    ///
    /// # Panics
    ///
    /// If `bytes` is 0.
    pub fn into_pieces(self, bytes: usize) -> Vec<Piece<B>> {
        assert_ne!(bytes, 0, "pieces of 0 bytes");
        let all = self.bytes;
        let whole = Arc::new(self);
        (0..all)
            .step_by(bytes)
            .map(|start| Piece { whole: whole.clone(), start, bytes: bytes.min(all - start) })
            .collect()
    }

    /// Ends the registration. Returns whether that was possible; if not, the backing must not be
    /// touched.
    fn end(&mut self) -> bool {
        // SAFETY: the memory is registered, and this function is called once.
        unsafe { (self.end)(self.mem.as_ptr()) == sys::KVD_OK }
    }
}

impl<B: BufferMut> Memory<B> {
    /// Ends the registration and gives back the memory.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: operations use the memory (only unsafe code can cause that), or it belongs
    /// to this process' parent. The memory then stays registered, and is never freed.
    pub fn into_inner(self) -> Result<B> {
        let mut this = ManuallyDrop::new(self);
        let ended = this.end();
        // SAFETY: `this` is not dropped, and neither is used afterwards.
        unsafe {
            ptr::drop_in_place(&mut this._user);
            if ended {
                return Ok(*Box::from_raw(this.backing.as_ptr()));
            }
        }
        Err(Error::Busy("the memory is in use, or the parent's of this process".into()))
    }
}

impl<B> Drop for Memory<B> {
    fn drop(&mut self) {
        if self.end() {
            // SAFETY: the device no longer uses the backing, and nothing uses it afterwards.
            drop(unsafe { Box::from_raw(self.backing.as_ptr()) });
        }
    }
}

impl<B> Deref for Memory<B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: that many bytes are there, and initialized.
        unsafe { slice::from_raw_parts(self.addr.as_ptr(), self.bytes) }
    }
}

impl<B> DerefMut for Memory<B> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and it is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.addr.as_ptr(), self.bytes) }
    }
}

impl<B> fmt::Debug for Memory<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

// SAFETY: the bytes are owned and do not move.
unsafe impl<B> Buffer for Memory<B> {
    fn bytes(&self) -> (*const u8, usize) {
        (self.addr.as_ptr(), self.bytes)
    }
}

// SAFETY: as above.
unsafe impl<B> BufferMut for Memory<B> {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        (self.addr.as_ptr(), self.bytes)
    }
}

/// A piece of registered memory, which derefs to its bytes.
pub struct Piece<B = Allocated> {
    whole: Arc<Memory<B>>,
    start: usize,
    bytes: usize,
}

impl<B> Piece<B> {
    fn addr(&self) -> *mut u8 {
        // SAFETY: the piece lies in the memory. Pieces do not overlap, and only they use the
        // memory.
        unsafe { self.whole.addr.as_ptr().add(self.start) }
    }
}

impl<B> Deref for Piece<B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.addr(), self.bytes) }
    }
}

impl<B> DerefMut for Piece<B> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and it is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.addr(), self.bytes) }
    }
}

impl<B> fmt::Debug for Piece<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece")
            .field("start", &self.start)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

// SAFETY: the bytes are owned, by this piece alone, and do not move.
unsafe impl<B> Buffer for Piece<B> {
    fn bytes(&self) -> (*const u8, usize) {
        (self.addr(), self.bytes)
    }
}

// SAFETY: as above.
unsafe impl<B> BufferMut for Piece<B> {
    fn bytes_mut(&mut self) -> (*mut u8, usize) {
        (self.addr(), self.bytes)
    }
}
