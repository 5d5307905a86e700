// SPDX-License-Identifier: MIT
//! Finds libkvd and tells cargo how to link it.
//!
//! | environment | what it does |
//! |---|---|
//! | `KVD_LIB_DIR` | folder with libkvd.so or libkvd.a, such as kvd's build folder |
//! | `KVD_STATIC` | `1`: libkvd.a (as the feature `static`), `0`: libkvd.so, whatever the feature |
//! | `PKG_CONFIG` | the program to run instead of `pkg-config` |
//!
//! Without KVD_LIB_DIR, `pkg-config kvd` finds libkvd, and PKG_CONFIG_PATH works as usual. Without
//! KVD_STATIC and the feature, the shared library is linked, or libkvd.a if KVD_LIB_DIR has no
//! libkvd.so. libkvd.a's dependencies (libibverbs, librdmacm, OpenSSL) are always linked as shared
//! libraries.
//!
//! Crates that depend on kvd-sys get DEP_KVD_LIBDIR (if the folder is known) and DEP_KVD_STATIC.

use std::env;
use std::path::Path;
use std::process::{exit, Command};

/// The minor version that the bindings were generated from: each minor version has its own ABI.
const WANTED: [&str; 2] = ["kvd >= 0.4", "kvd < 0.5"];

/// The dependencies of libkvd.a, where pkg-config does not list them.
const NEEDED: [&str; 4] = ["ibverbs", "rdmacm", "ssl", "crypto"];

fn main() {
    for name in ["KVD_LIB_DIR", "KVD_STATIC", "PKG_CONFIG", "PKG_CONFIG_PATH", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    // Documentation is built without linking.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    match env::var("KVD_LIB_DIR") {
        Ok(folder) if !folder.is_empty() => link_in(&folder),
        _ => link_installed(),
    }
}

fn fail(text: &str) -> ! {
    eprintln!("kvd-sys: {text}");
    exit(1);
}

/// Whether the user asked for libkvd.a; `None`: not said.
fn wants_static() -> Option<bool> {
    match env::var("KVD_STATIC").as_deref() {
        Ok("1") => Some(true),
        Ok("0") => Some(false),
        Ok("") | Err(_) => env::var_os("CARGO_FEATURE_STATIC").map(|_| true),
        Ok(other) => fail(&format!("KVD_STATIC is '{other}': set it to 1 (libkvd.a) or 0")),
    }
}

fn link_in(folder: &str) {
    let has = |name: &str| Path::new(folder).join(name).exists();
    let is_static = wants_static().unwrap_or_else(|| !has("libkvd.so"));
    let name = if is_static { "libkvd.a" } else { "libkvd.so" };
    if !has(name) {
        fail(&format!("there is no {name} in KVD_LIB_DIR={folder}: run `make` there first"));
    }
    println!("cargo:rerun-if-changed={folder}/{name}");
    println!("cargo:rustc-link-search=native={folder}");
    if is_static {
        println!("cargo:rustc-link-lib=static=kvd");
        NEEDED.iter().for_each(|library| println!("cargo:rustc-link-lib=dylib={library}"));
    } else {
        println!("cargo:rustc-link-lib=dylib=kvd");
    }
    println!("cargo:libdir={folder}\ncargo:static={}", u8::from(is_static));
}

/// Runs pkg-config and returns what it prints.
fn pkg_config(arguments: &[&str]) -> String {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = match Command::new(&program).args(arguments).args(WANTED).output() {
        Ok(output) => output,
        Err(error) => fail(&format!(
            "can't run {program}: {error}. Install pkg-config, or set KVD_LIB_DIR to the folder \
             that has libkvd.so"
        )),
    };
    if !output.status.success() {
        fail(&format!(
            "{program} {} finds no libkvd 0.4:\n{}Install it (`make install` in kvd), set \
             PKG_CONFIG_PATH to the folder of kvd.pc, or KVD_LIB_DIR to that of libkvd.so",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn link_installed() {
    let is_static = wants_static().unwrap_or(false);
    let arguments: &[&str] = if is_static { &["--libs", "--static"] } else { &["--libs"] };
    for word in pkg_config(arguments).split_whitespace() {
        let (kind, rest) = word.split_at(word.len().min(2));
        match kind {
            "-L" => println!("cargo:rustc-link-search=native={rest}"),
            "-l" if rest == "kvd" && is_static => println!("cargo:rustc-link-lib=static=kvd"),
            "-l" => println!("cargo:rustc-link-lib=dylib={rest}"),
            // -pthread: Rust's standard library links it already.
            _ => {}
        }
    }
    let libdir = pkg_config(&["--variable=libdir"]);
    // pkg-config prints the folder once for each of WANTED. Its --libs leaves out -L for folders
    // that the linker searches by default, but rustc needs the path to find libkvd.a.
    if let Some(folder) = libdir.split_whitespace().next() {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:libdir={folder}");
    }
    println!("cargo:static={}", u8::from(is_static));
}
