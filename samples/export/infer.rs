// The digits network from Rust, without any crate: rustc infer.rs -L . -l dylib=digits (see the Makefile).
use std::fs;

#[repr(C)]
struct Inputs {
    x: *const f32,
}

#[repr(C)]
struct Outputs {
    y: *mut f32,
    digit: *mut i32,
}

#[repr(C)]
struct Sizes {
    n: i64,
}

// sg_call of digits.h
#[repr(C)]
struct Call {
    workspace: *mut u8,
    workspace_bytes: i64,
    parallel: *const u8,
    pool: *mut u8,
    cancel: *const i32,
    error: [i64; 7],
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

extern "C" {
    fn digits_run_workspace_bytes(sizes: *const Sizes) -> i64;
    fn digits_run(inputs: *const Inputs, outputs: *const Outputs, sizes: *const Sizes, call: *mut Call) -> i32;
    fn digits_error_message(status: i32) -> *const std::os::raw::c_char;
}

fn main() {
    let read = |name: &str| fs::read(name).unwrap_or_else(|_| panic!("{name} is missing: run make_models.py first"));
    let x: Vec<f32> = read("images.bin").chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let labels: Vec<i32> = read("labels.bin").chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect();
    let n = labels.len();
    let (mut y, mut digit) = (vec![0f32; n * 10], vec![0i32; n]);
    let sizes = Sizes { n: n as i64 };
    let bytes = unsafe { digits_run_workspace_bytes(&sizes) };
    let mut workspace = vec![Line([0; 64]); (bytes as usize + 63) / 64];
    let mut call = Call {
        workspace: workspace.as_mut_ptr() as *mut u8,
        workspace_bytes: bytes,
        parallel: std::ptr::null(),
        pool: std::ptr::null_mut(),
        cancel: std::ptr::null(),
        error: [0; 7],
    };
    let inputs = Inputs { x: x.as_ptr() };
    let outputs = Outputs { y: y.as_mut_ptr(), digit: digit.as_mut_ptr() };
    let status = unsafe { digits_run(&inputs, &outputs, &sizes, &mut call) };
    if status != 0 {
        panic!("{}", unsafe { std::ffi::CStr::from_ptr(digits_error_message(status)) }.to_string_lossy());
    }
    let right = digit.iter().zip(&labels).filter(|(a, b)| a == b).count();
    println!("{right} of {n} images right: accuracy {:.2} %", 100.0 * right as f64 / n as f64);
}
