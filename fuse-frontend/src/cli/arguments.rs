//! The spellings users of other file systems have in their fingers and scripts: one dash in front of a long
//! option, and `=false` behind a switch.

use clap::{ArgAction, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// What may come behind a long option.
#[derive(Clone, Copy)]
enum Behind {
    /// Nothing.
    Nothing,
    /// A value, as the next argument or behind `=`.
    Value,
    /// A value behind `=`, or nothing.
    Equals,
}

/// Long options of all commands.
fn long_options(command: &Command) -> BTreeMap<String, Behind> {
    let mut all = BTreeMap::new();
    let below = command.get_subcommands().flat_map(Command::get_subcommands);
    for one in std::iter::once(command).chain(command.get_subcommands()).chain(below) {
        for option in one.get_arguments() {
            let behind = match option.get_action() {
                ArgAction::Set | ArgAction::Append if option.is_require_equals_set() => Behind::Equals,
                ArgAction::Set | ArgAction::Append => Behind::Value,
                _ => Behind::Nothing,
            };
            let names = option.get_long_and_visible_aliases().unwrap_or_default();
            all.extend(names.into_iter().map(|name| (name.to_owned(), behind)));
        }
    }
    all
}

/// The arguments as `clap` wants them. Nothing behind `--` is touched, nor what follows an option with a value.
pub(super) fn normal(command: &Command, given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let options = long_options(command);
    let (mut out, mut value_follows, mut over) = (Vec::new(), false, false);
    for argument in given {
        let Some(text) = argument.to_str().filter(|_| !over && !std::mem::take(&mut value_follows)) else {
            out.push(argument);
            continue;
        };
        if text == "--" {
            over = true;
        }
        let Some(bare) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
            out.push(argument);
            continue;
        };
        let (name, value) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        };
        match options.get(name) {
            // A single letter is a short option.
            _ if name.len() < 2 => {
                value_follows = text == "-o";
                out.push(argument);
            }
            None => out.push(argument),
            Some(Behind::Value) => {
                value_follows = value.is_none();
                out.push(format!("--{bare}").into());
            }
            Some(Behind::Equals) => out.push(format!("--{bare}").into()),
            Some(Behind::Nothing) => match value {
                None | Some("true") => out.push(format!("--{name}").into()),
                Some("false") => {}
                Some(_) => out.push(argument),
            },
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn said(text: &str) -> String {
        let given = text.split(' ').map(OsString::from);
        let normal = normal(&Cli::command(), given);
        normal.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        assert_eq!(said("zest mount -background -log f v m"), "zest mount --background --log f v m");
        assert_eq!(said("zest mount -attr-cache=3 v m"), "zest mount --attr-cache=3 v m");
        assert_eq!(said("zest mount -d -o allow_other v m"), "zest mount -d -o allow_other v m");
        assert_eq!(said("zest mount -o -d v"), "zest mount -o -d v");
        assert_eq!(said("zest mount -nonsense v"), "zest mount -nonsense v");
        assert_eq!(said("zest umount -- -background"), "zest umount -- -background");
    }

    #[test]
    fn commands_below_commands_are_known() {
        assert_eq!(said("zest quota set -path /d v"), "zest quota set --path /d v");
    }

    #[test]
    fn switches_can_be_switched_off() {
        assert_eq!(said("zest mount --read-only=false v m"), "zest mount v m");
        assert_eq!(said("zest mount --read-only=true v m"), "zest mount --read-only v m");
        assert_eq!(said("zest mount -enable-xattr=false v m"), "zest mount --enable-xattr=false v m");
        assert_eq!(said("zest format --access-key -quiet v n"), "zest format --access-key -quiet v n");
    }
}
