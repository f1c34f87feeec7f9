//! Rust under trace: panics through traced frames and through a callback of libc, with drops on their way; caught,
//! resumed, in a thread, and one while another is under way (with the argument "twice"), which ends the program.
//! It writes the same log as the C programs do with truth.h.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};

extern "C" {
    fn gettid() -> i32;
}

extern "C-unwind" {
    fn qsort(base: *mut i32, count: usize, size: usize, compare: extern "C-unwind" fn(&i32, &i32) -> i32);
}

fn log(mark: char, name: &str) {
    let Ok(folder) = std::env::var("CALLTAP_TRUTH") else { return };
    let path = format!("{}/{}.{}", folder, std::process::id(), unsafe { gettid() });
    let here = 0u8;
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{} {} {:x}\n", mark, name, &here as *const u8 as usize).as_bytes()).unwrap();
}

/// The function that holds it runs from here to its end, however it ends.
struct Truth(&'static str);

impl Truth {
    fn new(name: &'static str) -> Truth {
        log('>', name);
        Truth(name)
    }
}

impl Drop for Truth {
    fn drop(&mut self) {
        log('<', self.0);
    }
}

#[no_mangle]
#[inline(never)]
pub fn released(number: u32) {
    let _truth = Truth::new("released");
    std::hint::black_box(number);
}

struct Guard(u32);

impl Drop for Guard {
    fn drop(&mut self) {
        released(self.0);
    }
}

#[no_mangle]
#[inline(never)]
pub fn go_down(depth: u32) -> u32 {
    let _truth = Truth::new("go_down");
    let _guard = Guard(depth);
    if depth == 0 {
        panic::panic_any(7u32);
    }
    go_down(depth - 1) + 1
}

#[no_mangle]
#[inline(never)]
pub fn catches(depth: u32) -> u32 {
    let _truth = Truth::new("catches");
    let caught = panic::catch_unwind(|| go_down(depth)).unwrap_err();
    released(depth);
    *caught.downcast::<u32>().unwrap()
}

#[no_mangle]
#[inline(never)]
pub fn resumes(depth: u32) {
    let _truth = Truth::new("resumes");
    if let Err(caught) = panic::catch_unwind(|| go_down(depth)) {
        panic::resume_unwind(caught);
    }
}

#[no_mangle]
#[inline(never)]
pub extern "C-unwind" fn compare(left: &i32, right: &i32) -> i32 {
    let _truth = Truth::new("compare");
    if *left == 5 || *right == 5 {
        go_down(1);
    }
    left - right
}

#[no_mangle]
#[inline(never)]
pub fn sorts() -> bool {
    let _truth = Truth::new("sorts");
    let mut numbers = [9, 2, 7, 5, 1];
    let sorted = panic::catch_unwind(AssertUnwindSafe(|| unsafe {
        qsort(numbers.as_mut_ptr(), numbers.len(), 4, compare)
    }));
    sorted.is_err()
}

#[no_mangle]
#[inline(never)]
pub fn work(depth: u32) -> u32 {
    let _truth = Truth::new("work");
    catches(depth) + go_down(depth)
}

struct Second;

impl Drop for Second {
    fn drop(&mut self) {
        go_down(0);
    }
}

#[no_mangle]
#[inline(never)]
pub fn twice() {
    let _truth = Truth::new("twice");
    let _second = Second;
    go_down(1);
}

fn main() {
    panic::set_hook(Box::new(|_| ()));
    println!("catches {} {}", catches(0), catches(3));
    println!("resumes {}", panic::catch_unwind(|| resumes(2)).is_err());
    println!("sorts {}", sorts());
    let threads: Vec<_> = (0..4).map(|depth| std::thread::spawn(move || work(depth))).collect();
    for thread in threads {
        println!("thread {}", thread.join().is_err());
    }
    if std::env::args().count() > 1 {
        twice();
    }
}
