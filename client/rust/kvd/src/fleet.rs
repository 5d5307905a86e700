// SPDX-License-Identifier: MIT
//! Fleets: what a client knows of its fleet, and how shards are moved.

use crate::admin::string;
use crate::error::{text_of, Result};
use crate::{sys, Client};
use std::mem::{size_of, MaybeUninit};
use std::os::raw::c_char;

/// A fleet, by the map that the client has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetInfo {
    /// The fleet's name.
    pub name: String,
    /// The epoch of the map: it grows with each change of who has which keys.
    pub epoch: u64,
    /// The map's history: adopting a fleet begins another one.
    pub generation: u64,
    /// Equal parts of the keys, each of one member.
    pub shards: u32,
    /// Shards that no member has yet: [`Error::Away`](crate::Error::Away).
    pub unowned: u32,
    /// Members that the map has, whether they are there or not.
    pub members: u32,
}

/// A member of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetMember {
    /// The member's name.
    pub id: String,
    /// URLs at which clients reach it.
    pub urls: Vec<String>,
    /// Of this client, as [`Info::connection`](crate::Info::connection), or "unused" by it.
    pub connection: String,
    /// The share of the shards that it should have, relative to other members'.
    pub weight: u32,
    /// Shards that it has.
    pub shards: u32,
    /// Shards of these that clients may READ.
    pub open: u32,
    /// The fleet saw that the member is absent: it gets no shard until it is back.
    pub away: bool,
    /// The member gives its shards to others, and gets none: [`Client::fleet_drain`].
    pub drained: bool,
    /// All members get their share: [`Client::fleet_rebalance`].
    pub balances: bool,
}

/// A shard of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetShard {
    /// The number of its member; `None`: it has none yet.
    pub member: Option<u32>,
    /// Clients may READ it.
    pub open: bool,
    /// The epoch in which that changed last.
    pub since: u64,
}

/// # Safety
///
/// `text` ends with a zero byte.
unsafe fn text_in(text: &[c_char]) -> String {
    text_of(text.as_ptr())
}

impl Client {
    /// What the client knows of its fleet, by the map that it has. No member is asked.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid): the client is for one server.
    pub fn fleet_info(&self) -> Result<FleetInfo> {
        let mut raw = MaybeUninit::<sys::kvd_fleet_info>::uninit();
        // SAFETY: the handle is this thread's. Unless the call fails, all of it is filled, and
        // texts end with a zero byte.
        let raw = unsafe {
            let size = size_of::<sys::kvd_fleet_info>();
            self.check(sys::kvd_fleet_info(self.as_raw(), raw.as_mut_ptr(), size))?;
            raw.assume_init()
        };
        Ok(FleetInfo {
            // SAFETY: as above.
            name: unsafe { text_in(&raw.name) },
            epoch: raw.epoch,
            generation: raw.generation,
            shards: raw.shards,
            unowned: raw.unowned,
            members: raw.members,
        })
    }

    /// Member `number` of the fleet, from 0 on, in the order of the map, which another call can
    /// change. No member is asked.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound): the fleet has fewer members. Else as
    /// [`Client::fleet_info`].
    pub fn fleet_member(&self, number: u32) -> Result<FleetMember> {
        let mut raw = MaybeUninit::<sys::kvd_fleet_member>::uninit();
        // SAFETY: as in fleet_info().
        let raw = unsafe {
            let size = size_of::<sys::kvd_fleet_member>();
            self.check(sys::kvd_fleet_member(self.as_raw(), number, raw.as_mut_ptr(), size))?;
            raw.assume_init()
        };
        // SAFETY: as in fleet_info(); `connection` is static.
        let (id, urls, connection) =
            unsafe { (text_in(&raw.id), text_in(&raw.urls), text_of(raw.connection)) };
        Ok(FleetMember {
            id,
            urls: urls.split(',').map(String::from).collect(),
            connection,
            weight: raw.weight,
            shards: raw.shards,
            open: raw.open,
            away: raw.flags & sys::KVD_FLEET_MEMBER_AWAY != 0,
            drained: raw.flags & sys::KVD_FLEET_MEMBER_DRAINED != 0,
            balances: raw.flags & sys::KVD_FLEET_MEMBER_BALANCES != 0,
        })
    }

    /// Shard `number` of the fleet, from 0 on. No member is asked.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound): a fleet has fewer shards. Else as
    /// [`Client::fleet_info`].
    pub fn fleet_shard(&self, number: u32) -> Result<FleetShard> {
        let mut raw = MaybeUninit::<sys::kvd_fleet_shard>::uninit();
        // SAFETY: as in fleet_info().
        let raw = unsafe {
            let size = size_of::<sys::kvd_fleet_shard>();
            self.check(sys::kvd_fleet_shard(self.as_raw(), number, raw.as_mut_ptr(), size))?;
            raw.assume_init()
        };
        Ok(FleetShard {
            member: Some(raw.member).filter(|&member| member != sys::KVD_FLEET_NO_MEMBER),
            open: raw.open != 0,
            since: raw.since,
        })
    }

    /// The number of the shard that the key belongs to. No member is asked.
    ///
    /// # Errors
    ///
    /// As [`Client::fleet_info`].
    pub fn fleet_key(&self, key: impl AsRef<[u8]>) -> Result<u32> {
        let (key, mut number) = (key.as_ref(), 0);
        // SAFETY: the handle is this thread's.
        let status = unsafe {
            sys::kvd_fleet_key(self.as_raw(), key.as_ptr().cast(), key.len(), &mut number)
        };
        self.check(status).map(|()| number)
    }

    /// Has the member give all of its shards, with their keys, to the others, and get none, until
    /// [`Client::fleet_undrain`] or the end of its process. Returns when the map says so;
    /// [`Client::fleet_member`] shows how far they are. Needs the right admin.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`](crate::Error::NotFound): the fleet has no such member.
    /// [`Error::Invalid`](crate::Error::Invalid): also if the fleet's members are in a file.
    /// [`Error::Busy`](crate::Error::Busy): the map did not change in time, and may still do so.
    /// [`Error::Away`](crate::Error::Away): no member can be reached. Else as [`Client::ping`], and
    /// [`Error::NotAllowed`](crate::Error::NotAllowed).
    pub fn fleet_drain(&self, member: &str) -> Result<()> {
        let member = string(member)?;
        // SAFETY: the handle is this thread's.
        self.check(unsafe { sys::kvd_fleet_drain(self.as_raw(), member.as_ptr()) })
    }

    /// Ends what [`Client::fleet_drain`] has begun: the member keeps the shards that it has.
    ///
    /// # Errors
    ///
    /// As [`Client::fleet_drain`].
    pub fn fleet_undrain(&self, member: &str) -> Result<()> {
        let member = string(member)?;
        // SAFETY: the handle is this thread's.
        self.check(unsafe { sys::kvd_fleet_undrain(self.as_raw(), member.as_ptr()) })
    }

    /// Has each member that is there and not drained get its share of the shards, by their weights.
    /// As few shards as possible move.
    ///
    /// # Errors
    ///
    /// As [`Client::fleet_drain`].
    pub fn fleet_rebalance(&self) -> Result<()> {
        // SAFETY: the handle is this thread's.
        self.check(unsafe { sys::kvd_fleet_rebalance(self.as_raw()) })
    }
}
