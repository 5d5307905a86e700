// SPDX-License-Identifier: MIT
//! Flushes, the server's statistics, its connections and tenants.

use crate::error::{Error, Result};
use crate::{sys, Client};
use std::ffi::CString;
use std::os::raw::c_char;
use std::time::Duration;

/// A flush that [`Client::flush_start`] has started; valid until the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flush(u64);

/// The size of the first buffer for a text; enough for the statistics.
const TEXT_BYTES: usize = 64 << 10;
/// The size of the largest buffer for a text; enough for 65,536 connections.
const TEXT_BYTES_MAX: usize = 16 << 20;

type TextCall =
    unsafe extern "C" fn(*mut sys::kvd, *mut c_char, usize, *mut usize) -> sys::kvd_status;

pub(crate) fn string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::invalid("a name has a zero byte in it"))
}

impl Client {
    /// Starts the removal of every item that will be in the store in `delay` from now (rounded up
    /// to seconds; at most 34 years). Does not wait until the flush is done.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the delay is too long. [`Error::Busy`]: too many flushes are waiting.
    /// [`Error::Timeout`], [`Error::Unknown`], [`Error::Disconnected`], [`Error::Device`],
    /// [`Error::Protocol`].
    pub fn flush_start(&self, delay: Duration) -> Result<Flush> {
        let seconds = delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0));
        let delay_s = u32::try_from(seconds).unwrap_or(u32::MAX);
        let mut ticket = 0;
        // SAFETY: the handle is this thread's.
        let status = unsafe { sys::kvd_flush_start(self.as_raw(), delay_s, &mut ticket) };
        self.check(status).map(|()| Flush(ticket))
    }

    /// Asks whether a flush is done: no reader then sees an item that was stored before the flush's
    /// time. A cancelled flush is done, too.
    ///
    /// # Errors
    ///
    /// As [`Client::flush_start`].
    pub fn flush_done(&self, flush: Flush) -> Result<bool> {
        // SAFETY: as above.
        match unsafe { sys::kvd_flush_done(self.as_raw(), flush.0) } {
            sys::KVD_ERR_BUSY => Ok(false),
            status => self.check(status).map(|()| true),
        }
    }

    /// Cancels flushes that were started with a delay and have not begun, and returns how many:
    /// `flush`, or all if `None`; this client's, or any owner's, which needs the right admin.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: there is no such flush. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`].
    pub fn flush_cancel(&self, flush: Option<Flush>, any_owner: bool) -> Result<u64> {
        let (ticket, mut cancelled) = (flush.map_or(0, |flush| flush.0), 0);
        // SAFETY: as above.
        let status = unsafe {
            sys::kvd_flush_cancel(self.as_raw(), ticket, any_owner.into(), &mut cancelled)
        };
        self.check(status).map(|()| cancelled)
    }

    /// Removes every item that is in the store now, and waits until that is done.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`]: the flush continues. Else as [`Client::flush_start`].
    pub fn flush_all(&self) -> Result<()> {
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_flush_all(self.as_raw()) })
    }

    fn text(&self, call: TextCall) -> Result<String> {
        let mut text = Vec::new();
        let mut size = TEXT_BYTES;
        loop {
            text.resize(size, 0u8);
            let mut len = 0;
            // SAFETY: as above; the buffer has `size` bytes.
            let status = unsafe { call(self.as_raw(), text.as_mut_ptr().cast(), size, &mut len) };
            if status == sys::KVD_ERR_BUFFER && size < TEXT_BYTES_MAX {
                size *= 4;
                continue;
            }
            self.check(status)?;
            text.truncate(len);
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
    }

    /// The server's statistics: lines of "name value". `kvd --help` explains the names.
    ///
    /// # Errors
    ///
    /// As [`Client::ping`].
    pub fn server_stats(&self) -> Result<String> {
        self.text(sys::kvd_server_stats)
    }

    /// The server's connections, a line of name=value pairs for each; `kvd.h`
    /// (`kvd_client_list()`) explains the names. Needs the right admin.
    ///
    /// # Errors
    ///
    /// As [`Client::ping`], and [`Error::NotAllowed`], [`Error::Busy`].
    pub fn client_list(&self) -> Result<String> {
        self.text(sys::kvd_client_list)
    }

    /// Closes the connection with this id on the server; its client connects again. Needs the right
    /// admin.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: there is no such connection. [`Error::Disconnected`]: the id was that
    /// of this client's own connection, or that connection was lost. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`].
    pub fn client_kill(&self, id: u64) -> Result<()> {
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_client_kill(self.as_raw(), id) })
    }

    /// Stops the server, as SIGTERM does. Needs the right admin; if the server has no users, only
    /// root and the server's own user may do it, on the Unix socket.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllowed`]: this client may not stop the server. [`Error::Disconnected`]: the
    /// connection was lost before the answer came. Else as [`Client::ping`].
    pub fn shutdown(&self) -> Result<()> {
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_shutdown(self.as_raw()) })
    }

    /// The user, rights and tenant of this client, as the server knows them: pairs name=value.
    ///
    /// # Errors
    ///
    /// As [`Client::ping`].
    pub fn whoami(&self) -> Result<String> {
        self.text(sys::kvd_whoami)
    }

    /// The server's options as they are now: a line "section.key = value" for each. Needs the right
    /// admin; if the server has no users, for root and the server's own user, on the Unix socket.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: options are being changed; call again. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`].
    pub fn config_get(&self) -> Result<String> {
        self.text(sys::kvd_config_get)
    }

    /// Changes options of the running server, all of them or none: `assignments` has
    /// "section.key=value", several with newlines between them. Needs the right admin, as
    /// [`Client::config_get`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: nothing was changed; the text says which option is wrong, and why.
    /// [`Error::Disconnected`]: all may be set. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`].
    pub fn config_set(&self, assignments: &str) -> Result<()> {
        let assignments = string(assignments)?;
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_config_set(self.as_raw(), assignments.as_ptr()) })
    }

    /// Writes what [`Client::config_set`] has changed into the server's file, and returns what was
    /// written. Needs the right admin, as [`Client::config_get`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the file is as it was; the text says why. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`].
    pub fn config_rewrite(&self) -> Result<String> {
        self.text(sys::kvd_config_rewrite)
    }

    /// Closes all connections of a client on the server and returns how many there were. `who` is
    /// one of user=NAME, identity=NAME, uid=N, addr=ADDRESS and id=N. Needs the right admin.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: there is no such connection. [`Error::Invalid`]: `who` is none of
    /// these. [`Error::Busy`]: not all connections were closed in time, or too many clients were
    /// revoked at once; repeat the call to continue. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`].
    pub fn revoke(&self, who: &str) -> Result<u64> {
        let (who, mut closed) = (string(who)?, 0);
        // SAFETY: as above.
        let status = unsafe { sys::kvd_revoke(self.as_raw(), who.as_ptr(), &mut closed) };
        self.check(status).map(|()| closed)
    }

    /// The server's tenants, a line of name=value pairs for each. For administrators.
    ///
    /// # Errors
    ///
    /// As [`Client::ping`], and [`Error::Invalid`]: this client is no administrator.
    pub fn tenant_list(&self) -> Result<String> {
        self.text(sys::kvd_tenant_list)
    }

    /// Creates a tenant with `bytes` bytes of memory. For administrators. Blocks until the server
    /// has filled that memory, as [`Client::tenant_resize`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`]: a tenant has that name. [`Error::NoSpace`]: not enough memory is left.
    /// [`Error::Invalid`]: name or size is not allowed, or this client is no administrator. Else
    /// as [`Client::ping`].
    pub fn tenant_create(&self, name: &str, bytes: u64) -> Result<()> {
        let name = string(name)?;
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_tenant_create(self.as_raw(), name.as_ptr(), bytes) })
    }

    /// Changes a tenant's size; the tenant keeps its items. For administrators.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: there is no such tenant. Else as [`Client::tenant_create`].
    pub fn tenant_resize(&self, name: &str, bytes: u64) -> Result<()> {
        let name = string(name)?;
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_tenant_resize(self.as_raw(), name.as_ptr(), bytes) })
    }

    /// Drops a tenant with all of its items. For administrators.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]: there is no such tenant. [`Error::Invalid`]: it is "default" or
    /// this client's own, or this client is no administrator. Else as [`Client::ping`].
    pub fn tenant_drop(&self, name: &str) -> Result<()> {
        let name = string(name)?;
        // SAFETY: as above.
        self.check(unsafe { sys::kvd_tenant_drop(self.as_raw(), name.as_ptr()) })
    }
}
