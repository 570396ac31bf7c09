//! As much of an ELF file as says whether the program runs in an image without libraries, and on which machine.

use anyhow::{Context, bail, ensure};

/// Offsets of the 64-bit form.
const CLASS: usize = 4;
const MACHINE: usize = 18;
const TABLE: usize = 32;
const ENTRY_SIZE: usize = 54;
const ENTRY_COUNT: usize = 56;

/// The type of the entry that names a dynamic loader.
const INTERPRETER: u32 = 3;

/// The machine the program is for, as images name it.
///
/// # Errors
/// It is no program for Linux on a known machine, or it needs a loader and with it libraries.
pub fn static_architecture(binary: &[u8]) -> anyhow::Result<&'static str> {
    ensure!(binary.starts_with(b"\x7fELF") && binary.get(CLASS) == Some(&2), "no 64-bit ELF program");
    let architecture = match number(binary, MACHINE, 2)? {
        62 => "amd64",
        183 => "arm64",
        other => bail!("machine {other} is not known here: add it with the name that images use"),
    };
    let table = usize::try_from(number(binary, TABLE, 8)?)?;
    let size = usize::try_from(number(binary, ENTRY_SIZE, 2)?)?;
    for index in 0..usize::try_from(number(binary, ENTRY_COUNT, 2)?)? {
        let entry = index.checked_mul(size).and_then(|offset| offset.checked_add(table)).context("offset")?;
        ensure!(
            number(binary, entry, 4)? != u64::from(INTERPRETER),
            "the program is linked dynamically, the image has no libraries: build it with -C target-feature=+crt-static"
        );
    }
    Ok(architecture)
}

/// A little-endian number.
fn number(binary: &[u8], offset: usize, length: usize) -> anyhow::Result<u64> {
    let bytes = offset
        .checked_add(length)
        .and_then(|end| binary.get(offset..end))
        .context("the program is cut off")?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A header with one entry in its table.
    pub(crate) fn program(machine: u8, entry_type: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[MACHINE] = machine;
        bytes[TABLE] = 64;
        bytes[ENTRY_SIZE] = 56;
        bytes[ENTRY_COUNT] = 1;
        bytes[64] = entry_type;
        bytes
    }

    #[test]
    fn static_programs_have_an_architecture_and_others_are_refused() {
        assert_eq!(static_architecture(&program(62, 1)).unwrap(), "amd64");
        assert_eq!(static_architecture(&program(183, 1)).unwrap(), "arm64");
        for (binary, why) in [
            (program(62, 3), "linked dynamically"),
            (program(1, 1), "machine 1 is not known"),
            (program(62, 1)[..60].to_vec(), "cut off"),
            (b"#!/bin/sh".to_vec(), "no 64-bit ELF"),
        ] {
            let told = static_architecture(&binary).map_err(|error| error.to_string());
            assert!(told.unwrap_err().contains(why), "{why}");
        }
    }
}
