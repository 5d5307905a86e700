// SPDX-License-Identifier: MIT
// Made from kvd.h by bindgen.sh. Do not edit.

pub const KVD_VERSION_MAJOR: u32 = 0;
pub const KVD_VERSION_MINOR: u32 = 4;
pub const KVD_VERSION_PATCH: u32 = 0;
pub const KVD_KEY_MAX: u32 = 1024;
pub const KVD_VALUE_MAX: u32 = 1073741824;
pub const KVD_TTL_MAX: u32 = 1073741824;
pub const KVD_URL_MAX: u32 = 128;
pub const KVD_IOV_MAX: u32 = 64;
pub const KVD_FLEET_MEMBER_AWAY: u32 = 1;
pub const KVD_FLEET_MEMBER_DRAINED: u32 = 2;
pub const KVD_FLEET_MEMBER_BALANCES: u32 = 4;
pub const KVD_FLEET_NO_MEMBER: u32 = 4294967295;
pub type __uint32_t = ::std::os::raw::c_uint;
pub type __uint64_t = ::std::os::raw::c_ulong;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct iovec {
    pub iov_base: *mut ::std::os::raw::c_void,
    pub iov_len: usize,
}
#[test]
fn bindgen_test_layout_iovec() {
    assert_eq!(
        ::std::mem::size_of::<iovec>(),
        16usize,
        concat!("Size of: ", stringify!(iovec))
    );
    assert_eq!(
        ::std::mem::align_of::<iovec>(),
        8usize,
        concat!("Alignment of ", stringify!(iovec))
    );
    fn test_field_iov_base() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<iovec>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).iov_base) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(iovec),
                "::",
                stringify!(iov_base)
            )
        );
    }
    test_field_iov_base();
    fn test_field_iov_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<iovec>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).iov_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(iovec),
                "::",
                stringify!(iov_len)
            )
        );
    }
    test_field_iov_len();
}
pub const KVD_OK: kvd_status = 0;
pub const KVD_NOT_FOUND: kvd_status = 1;
pub const KVD_ERR_INVALID: kvd_status = 2;
pub const KVD_ERR_TOO_LARGE: kvd_status = 3;
pub const KVD_ERR_BUFFER: kvd_status = 4;
pub const KVD_ERR_NO_SPACE: kvd_status = 5;
pub const KVD_ERR_NO_MEMORY: kvd_status = 6;
pub const KVD_ERR_TIMEOUT: kvd_status = 7;
pub const KVD_ERR_DISCONNECTED: kvd_status = 8;
pub const KVD_ERR_UNREACHABLE: kvd_status = 9;
pub const KVD_ERR_REFUSED: kvd_status = 10;
pub const KVD_ERR_DEVICE: kvd_status = 11;
pub const KVD_ERR_PROTOCOL: kvd_status = 12;
pub const KVD_ERR_BUSY: kvd_status = 13;
pub const KVD_ERR_EXISTS: kvd_status = 14;
pub const KVD_ERR_NOT_A_NUMBER: kvd_status = 15;
pub const KVD_ERR_CANCELED: kvd_status = 16;
pub const KVD_ERR_UNKNOWN: kvd_status = 17;
pub const KVD_ERR_AUTH: kvd_status = 18;
pub const KVD_ERR_NOT_ALLOWED: kvd_status = 19;
pub const KVD_ERR_LIMIT: kvd_status = 20;
pub const KVD_ERR_AWAY: kvd_status = 21;
pub const KVD_ERR_MOVED: kvd_status = 22;
pub type kvd_status = ::std::os::raw::c_uint;
extern "C" {
    pub fn kvd_status_text(status: kvd_status) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn kvd_version() -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_options {
    pub timeout_ms: u32,
    pub connect_timeout_ms: u32,
    pub cache_bytes: usize,
    pub spin_us: u32,
    pub get_tries: u32,
    pub depth: u32,
    pub reconnect: u32,
    pub tls_ca: *const ::std::os::raw::c_char,
    pub tls_certificate: *const ::std::os::raw::c_char,
    pub tls_key: *const ::std::os::raw::c_char,
    pub tls_psk: *const ::std::os::raw::c_char,
    pub tenant: *const ::std::os::raw::c_char,
}
#[test]
fn bindgen_test_layout_kvd_options() {
    assert_eq!(
        ::std::mem::size_of::<kvd_options>(),
        72usize,
        concat!("Size of: ", stringify!(kvd_options))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_options>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_options))
    );
    fn test_field_timeout_ms() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).timeout_ms) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(timeout_ms)
            )
        );
    }
    test_field_timeout_ms();
    fn test_field_connect_timeout_ms() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).connect_timeout_ms) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(connect_timeout_ms)
            )
        );
    }
    test_field_connect_timeout_ms();
    fn test_field_cache_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).cache_bytes) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(cache_bytes)
            )
        );
    }
    test_field_cache_bytes();
    fn test_field_spin_us() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).spin_us) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(spin_us)
            )
        );
    }
    test_field_spin_us();
    fn test_field_get_tries() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).get_tries) as usize - ptr as usize
            },
            20usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(get_tries)
            )
        );
    }
    test_field_get_tries();
    fn test_field_depth() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).depth) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(depth)
            )
        );
    }
    test_field_depth();
    fn test_field_reconnect() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reconnect) as usize - ptr as usize
            },
            28usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(reconnect)
            )
        );
    }
    test_field_reconnect();
    fn test_field_tls_ca() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).tls_ca) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(tls_ca)
            )
        );
    }
    test_field_tls_ca();
    fn test_field_tls_certificate() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).tls_certificate) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(tls_certificate)
            )
        );
    }
    test_field_tls_certificate();
    fn test_field_tls_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).tls_key) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(tls_key)
            )
        );
    }
    test_field_tls_key();
    fn test_field_tls_psk() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).tls_psk) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(tls_psk)
            )
        );
    }
    test_field_tls_psk();
    fn test_field_tenant() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_options>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).tenant) as usize - ptr as usize
            },
            64usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_options),
                "::",
                stringify!(tenant)
            )
        );
    }
    test_field_tenant();
}
extern "C" {
    pub fn kvd_options_init(options: *mut kvd_options);
}
extern "C" {
    pub fn kvd_default_url(buffer: *mut ::std::os::raw::c_char) -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd {
    _unused: [u8; 0],
}
extern "C" {
    pub fn kvd_open(
        handle: *mut *mut kvd,
        url: *const ::std::os::raw::c_char,
        options: *const kvd_options,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_close(handle: *mut kvd);
}
extern "C" {
    pub fn kvd_error(handle: *const kvd) -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_item {
    pub value_len: usize,
    pub version: u64,
    pub flags: u32,
    pub expires_s: u32,
}
#[test]
fn bindgen_test_layout_kvd_item() {
    assert_eq!(
        ::std::mem::size_of::<kvd_item>(),
        24usize,
        concat!("Size of: ", stringify!(kvd_item))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_item>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_item))
    );
    fn test_field_value_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_item>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value_len) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_item),
                "::",
                stringify!(value_len)
            )
        );
    }
    test_field_value_len();
    fn test_field_version() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_item>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).version) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_item),
                "::",
                stringify!(version)
            )
        );
    }
    test_field_version();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_item>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_item),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_expires_s() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_item>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).expires_s) as usize - ptr as usize
            },
            20usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_item),
                "::",
                stringify!(expires_s)
            )
        );
    }
    test_field_expires_s();
}
extern "C" {
    pub fn kvd_get(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        value: *mut ::std::os::raw::c_void,
        value_size: usize,
        item: *mut kvd_item,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_getv(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        iov: *const iovec,
        iov_count: u32,
        item: *mut kvd_item,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_get_by_request(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        value: *mut ::std::os::raw::c_void,
        value_size: usize,
        item: *mut kvd_item,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_get_and_touch(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        ttl_s: u32,
        value: *mut ::std::os::raw::c_void,
        value_size: usize,
        item: *mut kvd_item,
    ) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_get_request {
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub value: *mut ::std::os::raw::c_void,
    pub value_size: usize,
    pub status: kvd_status,
    pub item: kvd_item,
}
#[test]
fn bindgen_test_layout_kvd_get_request() {
    assert_eq!(
        ::std::mem::size_of::<kvd_get_request>(),
        64usize,
        concat!("Size of: ", stringify!(kvd_get_request))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_get_request>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_get_request))
    );
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_get_request>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_get_request),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_get_request>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_get_request),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
    fn test_field_value() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_get_request>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_get_request),
                "::",
                stringify!(value)
            )
        );
    }
    test_field_value();
    fn test_field_value_size() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_get_request>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value_size) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_get_request),
                "::",
                stringify!(value_size)
            )
        );
    }
    test_field_value_size();
    fn test_field_status() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_get_request>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).status) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_get_request),
                "::",
                stringify!(status)
            )
        );
    }
    test_field_status();
    fn test_field_item() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_get_request>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).item) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_get_request),
                "::",
                stringify!(item)
            )
        );
    }
    test_field_item();
}
extern "C" {
    pub fn kvd_get_many(
        handle: *mut kvd,
        requests: *mut kvd_get_request,
        count: usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_get_range(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        offset: usize,
        value: *mut ::std::os::raw::c_void,
        value_size: usize,
        item: *mut kvd_item,
    ) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_range {
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub offset: usize,
    pub value: *mut ::std::os::raw::c_void,
    pub value_size: usize,
    pub status: kvd_status,
    pub item: kvd_item,
}
#[test]
fn bindgen_test_layout_kvd_range() {
    assert_eq!(
        ::std::mem::size_of::<kvd_range>(),
        72usize,
        concat!("Size of: ", stringify!(kvd_range))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_range>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_range))
    );
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
    fn test_field_offset() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).offset) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(offset)
            )
        );
    }
    test_field_offset();
    fn test_field_value() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(value)
            )
        );
    }
    test_field_value();
    fn test_field_value_size() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value_size) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(value_size)
            )
        );
    }
    test_field_value_size();
    fn test_field_status() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).status) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(status)
            )
        );
    }
    test_field_status();
    fn test_field_item() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_range>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).item) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_range),
                "::",
                stringify!(item)
            )
        );
    }
    test_field_item();
}
extern "C" {
    pub fn kvd_get_ranges(handle: *mut kvd, ranges: *mut kvd_range, count: usize) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_key {
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
}
#[test]
fn bindgen_test_layout_kvd_key() {
    assert_eq!(
        ::std::mem::size_of::<kvd_key>(),
        16usize,
        concat!("Size of: ", stringify!(kvd_key))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_key>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_key))
    );
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_key>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_key),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_key>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_key),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_exists {
    pub status: kvd_status,
    pub item: kvd_item,
}
#[test]
fn bindgen_test_layout_kvd_exists() {
    assert_eq!(
        ::std::mem::size_of::<kvd_exists>(),
        32usize,
        concat!("Size of: ", stringify!(kvd_exists))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_exists>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_exists))
    );
    fn test_field_status() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_exists>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).status) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_exists),
                "::",
                stringify!(status)
            )
        );
    }
    test_field_status();
    fn test_field_item() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_exists>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).item) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_exists),
                "::",
                stringify!(item)
            )
        );
    }
    test_field_item();
}
extern "C" {
    pub fn kvd_exists_many(
        handle: *mut kvd,
        keys: *const kvd_key,
        count: usize,
        results: *mut kvd_exists,
        present: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_exists_leading(
        handle: *mut kvd,
        keys: *const kvd_key,
        count: usize,
        leading: *mut usize,
    ) -> kvd_status;
}
pub const KVD_PUT_SET: kvd_put_mode = 0;
pub const KVD_PUT_IF_ABSENT: kvd_put_mode = 1;
pub const KVD_PUT_IF_PRESENT: kvd_put_mode = 2;
pub const KVD_PUT_IF_VERSION: kvd_put_mode = 3;
pub const KVD_PUT_APPEND: kvd_put_mode = 4;
pub const KVD_PUT_PREPEND: kvd_put_mode = 5;
pub type kvd_put_mode = ::std::os::raw::c_uint;
pub const KVD_PRIORITY_NORMAL: kvd_priority = 0;
pub const KVD_PRIORITY_LOW: kvd_priority = 1;
pub type kvd_priority = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_put_args {
    pub flags: u32,
    pub ttl_s: u32,
    pub mode: kvd_put_mode,
    pub if_version: u64,
    pub pin_s: u32,
    pub priority: kvd_priority,
}
#[test]
fn bindgen_test_layout_kvd_put_args() {
    assert_eq!(
        ::std::mem::size_of::<kvd_put_args>(),
        32usize,
        concat!("Size of: ", stringify!(kvd_put_args))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_put_args>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_put_args))
    );
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_put_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_put_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_ttl_s() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_put_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).ttl_s) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_put_args),
                "::",
                stringify!(ttl_s)
            )
        );
    }
    test_field_ttl_s();
    fn test_field_mode() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_put_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).mode) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_put_args),
                "::",
                stringify!(mode)
            )
        );
    }
    test_field_mode();
    fn test_field_if_version() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_put_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).if_version) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_put_args),
                "::",
                stringify!(if_version)
            )
        );
    }
    test_field_if_version();
    fn test_field_pin_s() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_put_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).pin_s) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_put_args),
                "::",
                stringify!(pin_s)
            )
        );
    }
    test_field_pin_s();
    fn test_field_priority() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_put_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).priority) as usize - ptr as usize
            },
            28usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_put_args),
                "::",
                stringify!(priority)
            )
        );
    }
    test_field_priority();
}
extern "C" {
    pub fn kvd_put(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        value: *const ::std::os::raw::c_void,
        value_len: usize,
        args: *const kvd_put_args,
        version: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_putv(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        iov: *const iovec,
        iov_count: u32,
        args: *const kvd_put_args,
        version: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_delete(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_delete_if(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        if_version: u64,
    ) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_arith_args {
    pub create: u32,
    pub flags: u32,
    pub ttl_s: u32,
    pub initial: u64,
}
#[test]
fn bindgen_test_layout_kvd_arith_args() {
    assert_eq!(
        ::std::mem::size_of::<kvd_arith_args>(),
        24usize,
        concat!("Size of: ", stringify!(kvd_arith_args))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_arith_args>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_arith_args))
    );
    fn test_field_create() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_arith_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).create) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_arith_args),
                "::",
                stringify!(create)
            )
        );
    }
    test_field_create();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_arith_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_arith_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_ttl_s() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_arith_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).ttl_s) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_arith_args),
                "::",
                stringify!(ttl_s)
            )
        );
    }
    test_field_ttl_s();
    fn test_field_initial() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_arith_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).initial) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_arith_args),
                "::",
                stringify!(initial)
            )
        );
    }
    test_field_initial();
}
extern "C" {
    pub fn kvd_incr(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        delta: u64,
        args: *const kvd_arith_args,
        number: *mut u64,
        version: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_decr(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        delta: u64,
        args: *const kvd_arith_args,
        number: *mut u64,
        version: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_touch(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        ttl_s: u32,
        version: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_flush_start(handle: *mut kvd, delay_s: u32, ticket: *mut u64) -> kvd_status;
}
extern "C" {
    pub fn kvd_flush_done(handle: *mut kvd, ticket: u64) -> kvd_status;
}
extern "C" {
    pub fn kvd_flush_cancel(
        handle: *mut kvd,
        ticket: u64,
        any_owner: ::std::os::raw::c_int,
        cancelled: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_flush_all(handle: *mut kvd) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_scan_args {
    pub prefix: *const ::std::os::raw::c_void,
    pub prefix_len: usize,
    pub count: u32,
    pub values: u32,
}
#[test]
fn bindgen_test_layout_kvd_scan_args() {
    assert_eq!(
        ::std::mem::size_of::<kvd_scan_args>(),
        24usize,
        concat!("Size of: ", stringify!(kvd_scan_args))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_scan_args>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_scan_args))
    );
    fn test_field_prefix() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_scan_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).prefix) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_scan_args),
                "::",
                stringify!(prefix)
            )
        );
    }
    test_field_prefix();
    fn test_field_prefix_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_scan_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).prefix_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_scan_args),
                "::",
                stringify!(prefix_len)
            )
        );
    }
    test_field_prefix_len();
    fn test_field_count() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_scan_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).count) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_scan_args),
                "::",
                stringify!(count)
            )
        );
    }
    test_field_count();
    fn test_field_values() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_scan_args>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).values) as usize - ptr as usize
            },
            20usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_scan_args),
                "::",
                stringify!(values)
            )
        );
    }
    test_field_values();
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_entry {
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub value: *const ::std::os::raw::c_void,
    pub item: kvd_item,
}
#[test]
fn bindgen_test_layout_kvd_entry() {
    assert_eq!(
        ::std::mem::size_of::<kvd_entry>(),
        48usize,
        concat!("Size of: ", stringify!(kvd_entry))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_entry>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_entry))
    );
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_entry>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_entry),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_entry>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_entry),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
    fn test_field_value() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_entry>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_entry),
                "::",
                stringify!(value)
            )
        );
    }
    test_field_value();
    fn test_field_item() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_entry>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).item) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_entry),
                "::",
                stringify!(item)
            )
        );
    }
    test_field_item();
}
pub type kvd_entry_fn = ::std::option::Option<
    unsafe extern "C" fn(
        arg: *mut ::std::os::raw::c_void,
        entry: *const kvd_entry,
    ) -> ::std::os::raw::c_int,
>;
extern "C" {
    pub fn kvd_scan(
        handle: *mut kvd,
        cursor: *mut u64,
        args: *const kvd_scan_args,
        each: kvd_entry_fn,
        arg: *mut ::std::os::raw::c_void,
    ) -> kvd_status;
}
pub const KVD_USE_NORMAL: kvd_use = 1;
pub const KVD_USE_LOW: kvd_use = 2;
pub const KVD_USE_PINNED: kvd_use = 3;
pub type kvd_use = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_used {
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub item: kvd_item,
    pub use_: u32,
    pub uses: u32,
    pub age: u32,
}
#[test]
fn bindgen_test_layout_kvd_used() {
    assert_eq!(
        ::std::mem::size_of::<kvd_used>(),
        56usize,
        concat!("Size of: ", stringify!(kvd_used))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_used>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_used))
    );
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_used>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_used),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_used>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_used),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
    fn test_field_item() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_used>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).item) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_used),
                "::",
                stringify!(item)
            )
        );
    }
    test_field_item();
    fn test_field_use() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_used>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).use_) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_used),
                "::",
                stringify!(use_)
            )
        );
    }
    test_field_use();
    fn test_field_uses() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_used>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).uses) as usize - ptr as usize
            },
            44usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_used),
                "::",
                stringify!(uses)
            )
        );
    }
    test_field_uses();
    fn test_field_age() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_used>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).age) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_used),
                "::",
                stringify!(age)
            )
        );
    }
    test_field_age();
}
pub type kvd_used_fn = ::std::option::Option<
    unsafe extern "C" fn(
        arg: *mut ::std::os::raw::c_void,
        used: *const kvd_used,
    ) -> ::std::os::raw::c_int,
>;
extern "C" {
    pub fn kvd_scan_uses(
        handle: *mut kvd,
        cursor: *mut u64,
        args: *const kvd_scan_args,
        each: kvd_used_fn,
        arg: *mut ::std::os::raw::c_void,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_ping(handle: *mut kvd) -> kvd_status;
}
extern "C" {
    pub fn kvd_server_stats(
        handle: *mut kvd,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_client_list(
        handle: *mut kvd,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_client_kill(handle: *mut kvd, id: u64) -> kvd_status;
}
extern "C" {
    pub fn kvd_revoke(
        handle: *mut kvd,
        who: *const ::std::os::raw::c_char,
        closed: *mut u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_shutdown(handle: *mut kvd) -> kvd_status;
}
extern "C" {
    pub fn kvd_whoami(
        handle: *mut kvd,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
pub const KVD_REPORT_SLOW: kvd_report = 0;
pub const KVD_REPORT_RESET: kvd_report = 1;
pub const KVD_REPORT_LOG: kvd_report = 3;
pub const KVD_REPORT_PROCESS: kvd_report = 4;
pub type kvd_report = ::std::os::raw::c_uint;
extern "C" {
    pub fn kvd_server_report(
        handle: *mut kvd,
        report: kvd_report,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_sample(
        handle: *mut kvd,
        every: u32,
        cursor: *mut u64,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_config_get(
        handle: *mut kvd,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_config_set(
        handle: *mut kvd,
        assignments: *const ::std::os::raw::c_char,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_config_rewrite(
        handle: *mut kvd,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_tenant_list(
        handle: *mut kvd,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_tenant_create(
        handle: *mut kvd,
        name: *const ::std::os::raw::c_char,
        bytes: u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_tenant_resize(
        handle: *mut kvd,
        name: *const ::std::os::raw::c_char,
        bytes: u64,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_tenant_drop(handle: *mut kvd, name: *const ::std::os::raw::c_char) -> kvd_status;
}
pub const KVD_OP_GET: kvd_opcode = 0;
pub const KVD_OP_PUT: kvd_opcode = 1;
pub const KVD_OP_DELETE: kvd_opcode = 2;
pub const KVD_OP_SCAN: kvd_opcode = 3;
pub const KVD_OP_INCR: kvd_opcode = 4;
pub const KVD_OP_DECR: kvd_opcode = 5;
pub const KVD_OP_TOUCH: kvd_opcode = 6;
pub const KVD_OP_GET_BY_REQUEST: kvd_opcode = 7;
pub const KVD_OP_GET_AND_TOUCH: kvd_opcode = 8;
pub const KVD_OP_PING: kvd_opcode = 9;
pub const KVD_OP_EXISTS: kvd_opcode = 10;
pub const KVD_OP_GET_RANGE: kvd_opcode = 11;
pub type kvd_opcode = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct kvd_op {
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub value: *mut ::std::os::raw::c_void,
    pub value_len: usize,
    pub status: kvd_status,
    pub item: kvd_item,
    pub number: u64,
    pub op: kvd_opcode,
    pub timeout_ms: u32,
    pub flags: u32,
    pub ttl_s: u32,
    pub mode: kvd_put_mode,
    pub create: u32,
    pub pin_s: u32,
    pub priority: kvd_priority,
    pub if_version: u64,
    pub delta: u64,
    pub initial: u64,
    pub done: ::std::option::Option<
        unsafe extern "C" fn(op: *mut kvd_op, user: *mut ::std::os::raw::c_void),
    >,
    pub user: *mut ::std::os::raw::c_void,
    pub iov: *const iovec,
    pub iov_count: u32,
    pub reserved_u32: u32,
    pub offset: usize,
    pub reserved: [u64; 11usize],
}
#[test]
fn bindgen_test_layout_kvd_op() {
    assert_eq!(
        ::std::mem::size_of::<kvd_op>(),
        256usize,
        concat!("Size of: ", stringify!(kvd_op))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_op>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_op))
    );
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
    fn test_field_value() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(value)
            )
        );
    }
    test_field_value();
    fn test_field_value_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value_len) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(value_len)
            )
        );
    }
    test_field_value_len();
    fn test_field_status() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).status) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(status)
            )
        );
    }
    test_field_status();
    fn test_field_item() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).item) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(item)
            )
        );
    }
    test_field_item();
    fn test_field_number() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).number) as usize - ptr as usize
            },
            64usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(number)
            )
        );
    }
    test_field_number();
    fn test_field_op() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).op) as usize - ptr as usize
            },
            72usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(op)
            )
        );
    }
    test_field_op();
    fn test_field_timeout_ms() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).timeout_ms) as usize - ptr as usize
            },
            76usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(timeout_ms)
            )
        );
    }
    test_field_timeout_ms();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            80usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_ttl_s() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).ttl_s) as usize - ptr as usize
            },
            84usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(ttl_s)
            )
        );
    }
    test_field_ttl_s();
    fn test_field_mode() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).mode) as usize - ptr as usize
            },
            88usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(mode)
            )
        );
    }
    test_field_mode();
    fn test_field_create() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).create) as usize - ptr as usize
            },
            92usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(create)
            )
        );
    }
    test_field_create();
    fn test_field_pin_s() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).pin_s) as usize - ptr as usize
            },
            96usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(pin_s)
            )
        );
    }
    test_field_pin_s();
    fn test_field_priority() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).priority) as usize - ptr as usize
            },
            100usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(priority)
            )
        );
    }
    test_field_priority();
    fn test_field_if_version() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).if_version) as usize - ptr as usize
            },
            104usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(if_version)
            )
        );
    }
    test_field_if_version();
    fn test_field_delta() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).delta) as usize - ptr as usize
            },
            112usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(delta)
            )
        );
    }
    test_field_delta();
    fn test_field_initial() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).initial) as usize - ptr as usize
            },
            120usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(initial)
            )
        );
    }
    test_field_initial();
    fn test_field_done() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).done) as usize - ptr as usize
            },
            128usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(done)
            )
        );
    }
    test_field_done();
    fn test_field_user() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).user) as usize - ptr as usize
            },
            136usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(user)
            )
        );
    }
    test_field_user();
    fn test_field_iov() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).iov) as usize - ptr as usize
            },
            144usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(iov)
            )
        );
    }
    test_field_iov();
    fn test_field_iov_count() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).iov_count) as usize - ptr as usize
            },
            152usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(iov_count)
            )
        );
    }
    test_field_iov_count();
    fn test_field_reserved_u32() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reserved_u32) as usize - ptr as usize
            },
            156usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(reserved_u32)
            )
        );
    }
    test_field_reserved_u32();
    fn test_field_offset() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).offset) as usize - ptr as usize
            },
            160usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(offset)
            )
        );
    }
    test_field_offset();
    fn test_field_reserved() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize
            },
            168usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op),
                "::",
                stringify!(reserved)
            )
        );
    }
    test_field_reserved();
}
extern "C" {
    pub fn kvd_submit(handle: *mut kvd, ops: *const *mut kvd_op, count: usize) -> kvd_status;
}
extern "C" {
    pub fn kvd_poll(handle: *mut kvd, done: *mut *mut kvd_op, max: usize) -> usize;
}
extern "C" {
    pub fn kvd_wait(
        handle: *mut kvd,
        done: *mut *mut kvd_op,
        max: usize,
        min: usize,
        timeout_ms: u32,
    ) -> usize;
}
extern "C" {
    pub fn kvd_outstanding(handle: *const kvd) -> usize;
}
extern "C" {
    pub fn kvd_cancel(handle: *mut kvd, op: *mut kvd_op) -> kvd_status;
}
extern "C" {
    pub fn kvd_fd(handle: *mut kvd) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn kvd_arm(handle: *mut kvd) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_mem {
    _unused: [u8; 0],
}
extern "C" {
    pub fn kvd_register(
        handle: *mut kvd,
        addr: *mut ::std::os::raw::c_void,
        bytes: usize,
        mem: *mut *mut kvd_mem,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_alloc(
        handle: *mut kvd,
        bytes: usize,
        addr: *mut *mut ::std::os::raw::c_void,
        mem: *mut *mut kvd_mem,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_deregister(mem: *mut kvd_mem) -> kvd_status;
}
extern "C" {
    pub fn kvd_free(mem: *mut kvd_mem) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_mem_info {
    pub addr: *mut ::std::os::raw::c_void,
    pub bytes: usize,
    pub registrations: ::std::os::raw::c_uint,
    pub register_ns: u64,
}
#[test]
fn bindgen_test_layout_kvd_mem_info() {
    assert_eq!(
        ::std::mem::size_of::<kvd_mem_info>(),
        32usize,
        concat!("Size of: ", stringify!(kvd_mem_info))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_mem_info>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_mem_info))
    );
    fn test_field_addr() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_mem_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).addr) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_mem_info),
                "::",
                stringify!(addr)
            )
        );
    }
    test_field_addr();
    fn test_field_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_mem_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).bytes) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_mem_info),
                "::",
                stringify!(bytes)
            )
        );
    }
    test_field_bytes();
    fn test_field_registrations() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_mem_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).registrations) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_mem_info),
                "::",
                stringify!(registrations)
            )
        );
    }
    test_field_registrations();
    fn test_field_register_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_mem_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).register_ns) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_mem_info),
                "::",
                stringify!(register_ns)
            )
        );
    }
    test_field_register_ns();
}
extern "C" {
    pub fn kvd_mem_info(mem: *const kvd_mem, info: *mut kvd_mem_info);
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_info {
    pub device_kind: *const ::std::os::raw::c_char,
    pub device_name: *const ::std::os::raw::c_char,
    pub device_why: *const ::std::os::raw::c_char,
    pub device_link: *const ::std::os::raw::c_char,
    pub incarnation: u64,
    pub region_bytes: u64,
    pub value_max: u64,
    pub window: u32,
    pub request_bytes: u32,
    pub cache_bytes: usize,
    pub buckets: u64,
    pub clock_error_ns: u64,
    pub access_rate: u32,
    pub connection: *const ::std::os::raw::c_char,
    pub reconnects: u64,
    pub tenant: *const ::std::os::raw::c_char,
}
#[test]
fn bindgen_test_layout_kvd_info() {
    assert_eq!(
        ::std::mem::size_of::<kvd_info>(),
        120usize,
        concat!("Size of: ", stringify!(kvd_info))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_info>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_info))
    );
    fn test_field_device_kind() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).device_kind) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(device_kind)
            )
        );
    }
    test_field_device_kind();
    fn test_field_device_name() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).device_name) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(device_name)
            )
        );
    }
    test_field_device_name();
    fn test_field_device_why() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).device_why) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(device_why)
            )
        );
    }
    test_field_device_why();
    fn test_field_device_link() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).device_link) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(device_link)
            )
        );
    }
    test_field_device_link();
    fn test_field_incarnation() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).incarnation) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(incarnation)
            )
        );
    }
    test_field_incarnation();
    fn test_field_region_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).region_bytes) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(region_bytes)
            )
        );
    }
    test_field_region_bytes();
    fn test_field_value_max() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).value_max) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(value_max)
            )
        );
    }
    test_field_value_max();
    fn test_field_window() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).window) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(window)
            )
        );
    }
    test_field_window();
    fn test_field_request_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).request_bytes) as usize - ptr as usize
            },
            60usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(request_bytes)
            )
        );
    }
    test_field_request_bytes();
    fn test_field_cache_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).cache_bytes) as usize - ptr as usize
            },
            64usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(cache_bytes)
            )
        );
    }
    test_field_cache_bytes();
    fn test_field_buckets() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).buckets) as usize - ptr as usize
            },
            72usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(buckets)
            )
        );
    }
    test_field_buckets();
    fn test_field_clock_error_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).clock_error_ns) as usize - ptr as usize
            },
            80usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(clock_error_ns)
            )
        );
    }
    test_field_clock_error_ns();
    fn test_field_access_rate() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).access_rate) as usize - ptr as usize
            },
            88usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(access_rate)
            )
        );
    }
    test_field_access_rate();
    fn test_field_connection() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).connection) as usize - ptr as usize
            },
            96usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(connection)
            )
        );
    }
    test_field_connection();
    fn test_field_reconnects() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reconnects) as usize - ptr as usize
            },
            104usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(reconnects)
            )
        );
    }
    test_field_reconnects();
    fn test_field_tenant() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).tenant) as usize - ptr as usize
            },
            112usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_info),
                "::",
                stringify!(tenant)
            )
        );
    }
    test_field_tenant();
}
extern "C" {
    pub fn kvd_info(handle: *const kvd, info: *mut kvd_info);
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_fleet_info {
    pub name: [::std::os::raw::c_char; 32usize],
    pub epoch: u64,
    pub generation: u64,
    pub shards: u32,
    pub unowned: u32,
    pub members: u32,
    pub reserved: u32,
}
#[test]
fn bindgen_test_layout_kvd_fleet_info() {
    assert_eq!(
        ::std::mem::size_of::<kvd_fleet_info>(),
        64usize,
        concat!("Size of: ", stringify!(kvd_fleet_info))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_fleet_info>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_fleet_info))
    );
    fn test_field_name() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).name) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(name)
            )
        );
    }
    test_field_name();
    fn test_field_epoch() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).epoch) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(epoch)
            )
        );
    }
    test_field_epoch();
    fn test_field_generation() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).generation) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(generation)
            )
        );
    }
    test_field_generation();
    fn test_field_shards() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).shards) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(shards)
            )
        );
    }
    test_field_shards();
    fn test_field_unowned() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).unowned) as usize - ptr as usize
            },
            52usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(unowned)
            )
        );
    }
    test_field_unowned();
    fn test_field_members() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).members) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(members)
            )
        );
    }
    test_field_members();
    fn test_field_reserved() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_info>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize
            },
            60usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_info),
                "::",
                stringify!(reserved)
            )
        );
    }
    test_field_reserved();
}
extern "C" {
    pub fn kvd_fleet_info(handle: *mut kvd, info: *mut kvd_fleet_info, size: usize) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_fleet_member {
    pub id: [::std::os::raw::c_char; 32usize],
    pub urls: [::std::os::raw::c_char; 520usize],
    pub connection: *const ::std::os::raw::c_char,
    pub weight: u32,
    pub shards: u32,
    pub open: u32,
    pub flags: u32,
}
#[test]
fn bindgen_test_layout_kvd_fleet_member() {
    assert_eq!(
        ::std::mem::size_of::<kvd_fleet_member>(),
        576usize,
        concat!("Size of: ", stringify!(kvd_fleet_member))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_fleet_member>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_fleet_member))
    );
    fn test_field_id() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).id) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(id)
            )
        );
    }
    test_field_id();
    fn test_field_urls() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).urls) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(urls)
            )
        );
    }
    test_field_urls();
    fn test_field_connection() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).connection) as usize - ptr as usize
            },
            552usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(connection)
            )
        );
    }
    test_field_connection();
    fn test_field_weight() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).weight) as usize - ptr as usize
            },
            560usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(weight)
            )
        );
    }
    test_field_weight();
    fn test_field_shards() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).shards) as usize - ptr as usize
            },
            564usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(shards)
            )
        );
    }
    test_field_shards();
    fn test_field_open() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).open) as usize - ptr as usize
            },
            568usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(open)
            )
        );
    }
    test_field_open();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_member>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            572usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_member),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
}
extern "C" {
    pub fn kvd_fleet_member(
        handle: *mut kvd,
        number: u32,
        member: *mut kvd_fleet_member,
        size: usize,
    ) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_fleet_shard {
    pub member: u32,
    pub open: u32,
    pub since: u64,
}
#[test]
fn bindgen_test_layout_kvd_fleet_shard() {
    assert_eq!(
        ::std::mem::size_of::<kvd_fleet_shard>(),
        16usize,
        concat!("Size of: ", stringify!(kvd_fleet_shard))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_fleet_shard>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_fleet_shard))
    );
    fn test_field_member() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_shard>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).member) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_shard),
                "::",
                stringify!(member)
            )
        );
    }
    test_field_member();
    fn test_field_open() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_shard>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).open) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_shard),
                "::",
                stringify!(open)
            )
        );
    }
    test_field_open();
    fn test_field_since() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_fleet_shard>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).since) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_fleet_shard),
                "::",
                stringify!(since)
            )
        );
    }
    test_field_since();
}
extern "C" {
    pub fn kvd_fleet_shard(
        handle: *mut kvd,
        number: u32,
        shard: *mut kvd_fleet_shard,
        size: usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_fleet_key(
        handle: *mut kvd,
        key: *const ::std::os::raw::c_void,
        key_len: usize,
        number: *mut u32,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_fleet_drain(handle: *mut kvd, id: *const ::std::os::raw::c_char) -> kvd_status;
}
extern "C" {
    pub fn kvd_fleet_undrain(handle: *mut kvd, id: *const ::std::os::raw::c_char) -> kvd_status;
}
extern "C" {
    pub fn kvd_fleet_rebalance(handle: *mut kvd) -> kvd_status;
}
extern "C" {
    pub fn kvd_clock_ns(handle: *const kvd) -> u64;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_stats {
    pub gets: u64,
    pub hits: u64,
    pub misses: u64,
    pub exists: u64,
    pub exists_found: u64,
    pub puts: u64,
    pub deletes: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub bucket_reads: u64,
    pub round_trips: u64,
    pub cache_hits: u64,
    pub cache_stale: u64,
    pub retries: u64,
    pub fallbacks: u64,
    pub geometry_reads: u64,
    pub expired: u64,
    pub clock_asks: u64,
    pub clock_jumps: u64,
    pub access_records: u64,
    pub access_messages: u64,
    pub requests: u64,
    pub sent_bytes: u64,
    pub pulled_bytes: u64,
    pub direct_bytes: u64,
    pub sleeps: u64,
    pub reconnects: u64,
    pub resent: u64,
    pub repeated: u64,
    pub unknown: u64,
    pub away: u64,
    pub moved: u64,
    pub maps: u64,
}
#[test]
fn bindgen_test_layout_kvd_stats() {
    assert_eq!(
        ::std::mem::size_of::<kvd_stats>(),
        264usize,
        concat!("Size of: ", stringify!(kvd_stats))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_stats>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_stats))
    );
    fn test_field_gets() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).gets) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(gets)
            )
        );
    }
    test_field_gets();
    fn test_field_hits() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).hits) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(hits)
            )
        );
    }
    test_field_hits();
    fn test_field_misses() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).misses) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(misses)
            )
        );
    }
    test_field_misses();
    fn test_field_exists() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).exists) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(exists)
            )
        );
    }
    test_field_exists();
    fn test_field_exists_found() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).exists_found) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(exists_found)
            )
        );
    }
    test_field_exists_found();
    fn test_field_puts() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).puts) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(puts)
            )
        );
    }
    test_field_puts();
    fn test_field_deletes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).deletes) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(deletes)
            )
        );
    }
    test_field_deletes();
    fn test_field_reads() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reads) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(reads)
            )
        );
    }
    test_field_reads();
    fn test_field_read_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).read_bytes) as usize - ptr as usize
            },
            64usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(read_bytes)
            )
        );
    }
    test_field_read_bytes();
    fn test_field_bucket_reads() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).bucket_reads) as usize - ptr as usize
            },
            72usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(bucket_reads)
            )
        );
    }
    test_field_bucket_reads();
    fn test_field_round_trips() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).round_trips) as usize - ptr as usize
            },
            80usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(round_trips)
            )
        );
    }
    test_field_round_trips();
    fn test_field_cache_hits() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).cache_hits) as usize - ptr as usize
            },
            88usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(cache_hits)
            )
        );
    }
    test_field_cache_hits();
    fn test_field_cache_stale() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).cache_stale) as usize - ptr as usize
            },
            96usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(cache_stale)
            )
        );
    }
    test_field_cache_stale();
    fn test_field_retries() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).retries) as usize - ptr as usize
            },
            104usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(retries)
            )
        );
    }
    test_field_retries();
    fn test_field_fallbacks() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).fallbacks) as usize - ptr as usize
            },
            112usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(fallbacks)
            )
        );
    }
    test_field_fallbacks();
    fn test_field_geometry_reads() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).geometry_reads) as usize - ptr as usize
            },
            120usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(geometry_reads)
            )
        );
    }
    test_field_geometry_reads();
    fn test_field_expired() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).expired) as usize - ptr as usize
            },
            128usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(expired)
            )
        );
    }
    test_field_expired();
    fn test_field_clock_asks() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).clock_asks) as usize - ptr as usize
            },
            136usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(clock_asks)
            )
        );
    }
    test_field_clock_asks();
    fn test_field_clock_jumps() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).clock_jumps) as usize - ptr as usize
            },
            144usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(clock_jumps)
            )
        );
    }
    test_field_clock_jumps();
    fn test_field_access_records() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).access_records) as usize - ptr as usize
            },
            152usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(access_records)
            )
        );
    }
    test_field_access_records();
    fn test_field_access_messages() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).access_messages) as usize - ptr as usize
            },
            160usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(access_messages)
            )
        );
    }
    test_field_access_messages();
    fn test_field_requests() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).requests) as usize - ptr as usize
            },
            168usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(requests)
            )
        );
    }
    test_field_requests();
    fn test_field_sent_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).sent_bytes) as usize - ptr as usize
            },
            176usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(sent_bytes)
            )
        );
    }
    test_field_sent_bytes();
    fn test_field_pulled_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).pulled_bytes) as usize - ptr as usize
            },
            184usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(pulled_bytes)
            )
        );
    }
    test_field_pulled_bytes();
    fn test_field_direct_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).direct_bytes) as usize - ptr as usize
            },
            192usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(direct_bytes)
            )
        );
    }
    test_field_direct_bytes();
    fn test_field_sleeps() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).sleeps) as usize - ptr as usize
            },
            200usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(sleeps)
            )
        );
    }
    test_field_sleeps();
    fn test_field_reconnects() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reconnects) as usize - ptr as usize
            },
            208usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(reconnects)
            )
        );
    }
    test_field_reconnects();
    fn test_field_resent() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).resent) as usize - ptr as usize
            },
            216usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(resent)
            )
        );
    }
    test_field_resent();
    fn test_field_repeated() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).repeated) as usize - ptr as usize
            },
            224usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(repeated)
            )
        );
    }
    test_field_repeated();
    fn test_field_unknown() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).unknown) as usize - ptr as usize
            },
            232usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(unknown)
            )
        );
    }
    test_field_unknown();
    fn test_field_away() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).away) as usize - ptr as usize
            },
            240usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(away)
            )
        );
    }
    test_field_away();
    fn test_field_moved() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).moved) as usize - ptr as usize
            },
            248usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(moved)
            )
        );
    }
    test_field_moved();
    fn test_field_maps() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).maps) as usize - ptr as usize
            },
            256usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_stats),
                "::",
                stringify!(maps)
            )
        );
    }
    test_field_maps();
}
extern "C" {
    pub fn kvd_stats(handle: *const kvd, stats: *mut kvd_stats);
}
extern "C" {
    pub fn kvd_latency_ns(handle: *const kvd, op: kvd_opcode, quantile: f64) -> u64;
}
pub const KVD_PATH_NONE: kvd_path = 0;
pub const KVD_PATH_WARM: kvd_path = 1;
pub const KVD_PATH_COLD: kvd_path = 2;
pub const KVD_PATH_REQUEST: kvd_path = 3;
pub const KVD_PATH_PULL: kvd_path = 4;
pub const KVD_PATH_DIRECT: kvd_path = 5;
pub type kvd_path = ::std::os::raw::c_uint;
pub const KVD_OBSERVE_OFF: kvd_observe = 0;
pub const KVD_OBSERVE_OPS: kvd_observe = 1;
pub type kvd_observe = ::std::os::raw::c_uint;
extern "C" {
    pub fn kvd_observe(handle: *mut kvd, flags: u32) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_times {
    pub count: u64,
    pub sum_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
}
#[test]
fn bindgen_test_layout_kvd_times() {
    assert_eq!(
        ::std::mem::size_of::<kvd_times>(),
        64usize,
        concat!("Size of: ", stringify!(kvd_times))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_times>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_times))
    );
    fn test_field_count() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).count) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(count)
            )
        );
    }
    test_field_count();
    fn test_field_sum_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).sum_ns) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(sum_ns)
            )
        );
    }
    test_field_sum_ns();
    fn test_field_min_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).min_ns) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(min_ns)
            )
        );
    }
    test_field_min_ns();
    fn test_field_max_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).max_ns) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(max_ns)
            )
        );
    }
    test_field_max_ns();
    fn test_field_p50_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).p50_ns) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(p50_ns)
            )
        );
    }
    test_field_p50_ns();
    fn test_field_p90_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).p90_ns) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(p90_ns)
            )
        );
    }
    test_field_p90_ns();
    fn test_field_p99_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).p99_ns) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(p99_ns)
            )
        );
    }
    test_field_p99_ns();
    fn test_field_p999_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_times>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).p999_ns) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_times),
                "::",
                stringify!(p999_ns)
            )
        );
    }
    test_field_p999_ns();
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_op_stats {
    pub count: u64,
    pub errors: u64,
    pub queue: kvd_times,
    pub service: kvd_times,
}
#[test]
fn bindgen_test_layout_kvd_op_stats() {
    assert_eq!(
        ::std::mem::size_of::<kvd_op_stats>(),
        144usize,
        concat!("Size of: ", stringify!(kvd_op_stats))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_op_stats>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_op_stats))
    );
    fn test_field_count() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).count) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op_stats),
                "::",
                stringify!(count)
            )
        );
    }
    test_field_count();
    fn test_field_errors() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).errors) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op_stats),
                "::",
                stringify!(errors)
            )
        );
    }
    test_field_errors();
    fn test_field_queue() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).queue) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op_stats),
                "::",
                stringify!(queue)
            )
        );
    }
    test_field_queue();
    fn test_field_service() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_op_stats>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).service) as usize - ptr as usize
            },
            80usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_op_stats),
                "::",
                stringify!(service)
            )
        );
    }
    test_field_service();
}
extern "C" {
    pub fn kvd_op_stats(
        handle: *const kvd,
        op: kvd_opcode,
        path: kvd_path,
        stats: *mut kvd_op_stats,
        size: usize,
    ) -> kvd_status;
}
extern "C" {
    pub fn kvd_process_stats(stats: *mut kvd_stats, size: usize) -> usize;
}
pub const KVD_STATS_LINES: kvd_stats_format = 0;
pub const KVD_STATS_PROMETHEUS: kvd_stats_format = 1;
pub type kvd_stats_format = ::std::os::raw::c_uint;
extern "C" {
    pub fn kvd_stats_text(
        handle: *const kvd,
        format: kvd_stats_format,
        text: *mut ::std::os::raw::c_char,
        size: usize,
        len: *mut usize,
    ) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_trace_event {
    pub ended: u32,
    pub op: kvd_opcode,
    pub key: *const ::std::os::raw::c_void,
    pub key_len: usize,
    pub submitted: *const kvd_op,
    pub start_ns: u64,
    pub posted_ns: u64,
    pub end_ns: u64,
    pub status: kvd_status,
    pub path: kvd_path,
    pub reads: u32,
    pub messages: u32,
}
#[test]
fn bindgen_test_layout_kvd_trace_event() {
    assert_eq!(
        ::std::mem::size_of::<kvd_trace_event>(),
        72usize,
        concat!("Size of: ", stringify!(kvd_trace_event))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_trace_event>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_trace_event))
    );
    fn test_field_ended() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).ended) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(ended)
            )
        );
    }
    test_field_ended();
    fn test_field_op() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).op) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(op)
            )
        );
    }
    test_field_op();
    fn test_field_key() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(key)
            )
        );
    }
    test_field_key();
    fn test_field_key_len() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).key_len) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(key_len)
            )
        );
    }
    test_field_key_len();
    fn test_field_submitted() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).submitted) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(submitted)
            )
        );
    }
    test_field_submitted();
    fn test_field_start_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).start_ns) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(start_ns)
            )
        );
    }
    test_field_start_ns();
    fn test_field_posted_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).posted_ns) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(posted_ns)
            )
        );
    }
    test_field_posted_ns();
    fn test_field_end_ns() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).end_ns) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(end_ns)
            )
        );
    }
    test_field_end_ns();
    fn test_field_status() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).status) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(status)
            )
        );
    }
    test_field_status();
    fn test_field_path() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).path) as usize - ptr as usize
            },
            60usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(path)
            )
        );
    }
    test_field_path();
    fn test_field_reads() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).reads) as usize - ptr as usize
            },
            64usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(reads)
            )
        );
    }
    test_field_reads();
    fn test_field_messages() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_trace_event>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).messages) as usize - ptr as usize
            },
            68usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_trace_event),
                "::",
                stringify!(messages)
            )
        );
    }
    test_field_messages();
}
pub type kvd_trace_fn = ::std::option::Option<
    unsafe extern "C" fn(user: *mut ::std::os::raw::c_void, event: *const kvd_trace_event),
>;
extern "C" {
    pub fn kvd_trace(
        handle: *mut kvd,
        trace: kvd_trace_fn,
        user: *mut ::std::os::raw::c_void,
    ) -> kvd_status;
}
pub const KVD_LOG_OFF: kvd_log_level = 0;
pub const KVD_LOG_ERROR: kvd_log_level = 1;
pub const KVD_LOG_WARN: kvd_log_level = 2;
pub const KVD_LOG_NOTICE: kvd_log_level = 3;
pub const KVD_LOG_INFO: kvd_log_level = 4;
pub const KVD_LOG_DEBUG: kvd_log_level = 5;
pub type kvd_log_level = ::std::os::raw::c_uint;
pub type kvd_log_fn = ::std::option::Option<
    unsafe extern "C" fn(
        user: *mut ::std::os::raw::c_void,
        level: kvd_log_level,
        text: *const ::std::os::raw::c_char,
    ),
>;
extern "C" {
    pub fn kvd_set_log(
        level: kvd_log_level,
        log: kvd_log_fn,
        user: *mut ::std::os::raw::c_void,
    ) -> kvd_status;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct kvd_allocator {
    pub alloc: ::std::option::Option<
        unsafe extern "C" fn(
            user: *mut ::std::os::raw::c_void,
            bytes: usize,
        ) -> *mut ::std::os::raw::c_void,
    >,
    pub realloc: ::std::option::Option<
        unsafe extern "C" fn(
            user: *mut ::std::os::raw::c_void,
            memory: *mut ::std::os::raw::c_void,
            bytes: usize,
        ) -> *mut ::std::os::raw::c_void,
    >,
    pub free: ::std::option::Option<
        unsafe extern "C" fn(
            user: *mut ::std::os::raw::c_void,
            memory: *mut ::std::os::raw::c_void,
        ),
    >,
    pub user: *mut ::std::os::raw::c_void,
}
#[test]
fn bindgen_test_layout_kvd_allocator() {
    assert_eq!(
        ::std::mem::size_of::<kvd_allocator>(),
        32usize,
        concat!("Size of: ", stringify!(kvd_allocator))
    );
    assert_eq!(
        ::std::mem::align_of::<kvd_allocator>(),
        8usize,
        concat!("Alignment of ", stringify!(kvd_allocator))
    );
    fn test_field_alloc() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_allocator>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).alloc) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_allocator),
                "::",
                stringify!(alloc)
            )
        );
    }
    test_field_alloc();
    fn test_field_realloc() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_allocator>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).realloc) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_allocator),
                "::",
                stringify!(realloc)
            )
        );
    }
    test_field_realloc();
    fn test_field_free() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_allocator>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).free) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_allocator),
                "::",
                stringify!(free)
            )
        );
    }
    test_field_free();
    fn test_field_user() {
        assert_eq!(
            unsafe {
                let uninit = ::std::mem::MaybeUninit::<kvd_allocator>::uninit();
                let ptr = uninit.as_ptr();
                ::std::ptr::addr_of!((*ptr).user) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(kvd_allocator),
                "::",
                stringify!(user)
            )
        );
    }
    test_field_user();
}
extern "C" {
    pub fn kvd_set_allocator(allocator: *const kvd_allocator) -> kvd_status;
}
