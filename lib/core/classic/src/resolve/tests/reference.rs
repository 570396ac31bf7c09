//! Random small worlds, and a resolver of them that is short and slow: written from the rules, without any of the code that
//! it is compared with.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{TestBundle, World, bundle, gvk};

/// Numbers from a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

const PACKAGES: [&str; 3] = ["a", "b", "c"];
const CATALOGS: [&str; 2] = ["cat", "dog"];
const KINDS: [&str; 3] = ["K", "L", "M"];

/// Something that is needed of one other bundle.
#[derive(Debug, Clone)]
enum Need {
    Kind(usize),
    /// A package from this version on.
    Package(usize, usize),
    /// One of the packages, or none of them.
    Either(usize, usize),
    Neither(usize, usize),
}

impl Need {
    fn random(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0..4 => Self::Kind(dice.below(3)),
            4..6 => Self::Package(dice.below(3), dice.below(4)),
            6 => Self::Either(dice.below(3), dice.below(3)),
            _ => Self::Neither(dice.below(3), dice.below(3)),
        }
    }

    fn is_met_by(&self, one: &Thing) -> bool {
        match *self {
            Self::Kind(kind) => one.kinds.contains(&kind),
            Self::Package(package, from) => one.package == package && one.version >= from,
            Self::Either(a, b) => [a, b].contains(&one.package),
            Self::Neither(a, b) => ![a, b].contains(&one.package),
        }
    }

    fn property(&self) -> (&'static str, Value) {
        let package =
            |at: usize| json!({"package": {"packageName": PACKAGES[at], "versionRange": ">=0.0.0"}});
        match *self {
            Self::Kind(kind) => ("olm.gvk.required", gvk(KINDS[kind])),
            Self::Package(package, from) => {
                let range = format!(">={from}.0.0");
                ("olm.package.required", json!({"packageName": PACKAGES[package], "versionRange": range}))
            }
            Self::Either(a, b) => {
                ("olm.constraint", json!({"any": {"constraints": [package(a), package(b)]}}))
            }
            Self::Neither(a, b) => {
                ("olm.constraint", json!({"not": {"constraints": [package(a), package(b)]}}))
            }
        }
    }
}

/// A bundle in a channel, or something installed.
#[derive(Debug, Clone)]
struct Thing {
    /// Catalog, from the preferred one; none for what is installed.
    catalog: Option<usize>,
    package: usize,
    /// 0 is the default channel.
    channel: usize,
    version: usize,
    kinds: BTreeSet<usize>,
    needs: Vec<Need>,
    is_deprecated: bool,
    is_skipped: bool,
}

impl Thing {
    fn name(&self) -> String {
        format!("{}.v{}.0.0", PACKAGES[self.package], self.version)
    }

    fn properties(&self) -> Vec<(&'static str, Value)> {
        let kinds = self.kinds.iter().map(|kind| ("olm.gvk", gvk(KINDS[*kind])));
        kinds.chain(self.needs.iter().map(Need::property)).collect()
    }
}

#[derive(Debug, Clone)]
struct Asked {
    package: usize,
    channel: Option<usize>,
    catalog: usize,
    /// The installed thing.
    installed: Option<usize>,
}

/// A world, and what is in it.
#[derive(Debug)]
pub(super) struct Universe {
    pub(super) world: World,
    things: Vec<Thing>,
    asked: Vec<Asked>,
}

const CHANNELS: [&str; 2] = ["stable", "alpha"];

/// The versions of a package in a catalog: each in one channel, of which each version replaces the one before.
fn package(dice: &mut Dice, catalog: usize, package: usize, things: &mut Vec<Thing>) -> Vec<TestBundle> {
    let mut last: [Option<usize>; 2] = [None, None];
    let mut bundles: Vec<TestBundle> = Vec::new();
    for version in 1..=1 + dice.below(3) {
        let channel = usize::from(dice.percent(25));
        let mut thing = Thing {
            catalog: Some(catalog),
            package,
            channel,
            version,
            kinds: (0..3).filter(|_| dice.percent(25)).collect(),
            needs: Vec::new(),
            is_deprecated: dice.percent(8),
            is_skipped: false,
        };
        while thing.needs.len() < 2 && dice.percent(35) {
            thing.needs.push(Need::random(dice));
        }
        let mut one = bundle(PACKAGES[package], &format!("{version}.0.0")).channels(&[CHANNELS[channel]]);
        for (kind, value) in thing.properties() {
            one = one.property(kind, &value);
        }
        if thing.is_deprecated {
            one = one.deprecated();
        }
        if let Some(before) = last[channel] {
            one = one.replaces(&format!("{before}.0.0"));
            if dice.percent(15) {
                one = one.skips(&format!("{before}.0.0"));
                let of_channel = |one: &&mut Thing| {
                    (one.catalog, one.package, one.version) == (Some(catalog), package, before)
                };
                things.iter_mut().filter(of_channel).for_each(|one| one.is_skipped = true);
            }
        }
        last[channel] = Some(version);
        things.push(thing);
        bundles.push(one);
    }
    bundles
}

impl Universe {
    pub(super) fn random(seed: u64) -> Self {
        let dice = &mut Dice(seed);
        let (mut world, mut things, mut asked) = (World::default(), Vec::new(), Vec::new());
        // In order of preference: the first has the higher priority.
        for (at, name) in CATALOGS.iter().enumerate().take(1 + dice.below(2)) {
            let mut bundles = Vec::new();
            for one in 0..=dice.below(3) {
                bundles.extend(package(dice, at, one, &mut things));
            }
            world = world.catalog("olm", name, i32::from(at == 0), bundles);
        }
        for (one, package) in PACKAGES.iter().enumerate().take(1 + dice.below(3)) {
            let installed = dice.percent(35).then(|| install(dice, one, &mut things, &mut world)).flatten();
            if installed.is_some() && dice.percent(20) {
                continue;
            }
            let channel = dice.percent(50).then(|| dice.below(2));
            let catalog = dice.below(world.catalogs.len());
            let fields = json!({"channel": channel.map(|at| CHANNELS[at]), "source": CATALOGS[catalog]});
            let name: Option<String> = installed.map(|at: usize| things[at].name());
            world = world.subscribe_installed(&format!("s{one}"), package, &fields, name.as_deref());
            asked.push(Asked { package: one, channel, catalog, installed });
        }
        Self { world, things, asked }
    }

    /// What the search chooses: the first solution in the order of preference. `None` when there is none.
    pub(super) fn solve(&self) -> Option<BTreeSet<(String, String, String)>> {
        let mut choices = Vec::new();
        for asked in &self.asked {
            choices.push(Choice::Asked(asked.clone()));
        }
        // What must be is there before anything is chosen.
        let free = (0..self.things.len()).filter(|at| self.is_free(*at));
        let mut chosen: Vec<usize> = Vec::new();
        for at in free {
            if !self.fits(at, &chosen) {
                return None;
            }
            chosen.push(at);
            choices.extend(self.things[at].needs.iter().map(|need| Choice::Need(at, need.clone())));
        }
        let found = self.search(&choices, &chosen)?;
        assert!(self.is_solution(&found), "the reference is wrong");
        let new = found.into_iter().map(|at| &self.things[at]).filter(|one| one.catalog.is_some());
        let new = new.filter(|one| !self.is_current(one));
        let source = |one: &Thing| CATALOGS[one.catalog.unwrap()].to_owned();
        Some(new.map(|one| (source(one), CHANNELS[one.channel].to_owned(), one.name())).collect())
    }

    /// Whether all that matches asks for this version and has it.
    fn is_current(&self, one: &Thing) -> bool {
        let matching = self.asked.iter().filter(|asked| {
            asked.package == one.package
                && asked.channel.is_none_or(|channel| channel == one.channel)
                && Some(asked.catalog) == one.catalog
        });
        let mut matching = matching.peekable();
        matching.peek().is_some()
            && matching.all(|asked| asked.installed.is_some_and(|at| self.things[at].name() == one.name()))
    }

    fn is_free(&self, at: usize) -> bool {
        self.things[at].catalog.is_none() && !self.asked.iter().any(|asked| asked.installed == Some(at))
    }

    fn search(&self, choices: &[Choice], chosen: &[usize]) -> Option<Vec<usize>> {
        let Some((first, others)) = choices.split_first() else { return Some(chosen.to_vec()) };
        let candidates = self.candidates(first);
        if candidates.iter().any(|one| chosen.contains(one)) {
            return self.search(others, chosen);
        }
        candidates.into_iter().find_map(|one| {
            if !self.fits(one, chosen) {
                return None;
            }
            let mut choices = others.to_vec();
            choices.extend(self.things[one].needs.iter().map(|need| Choice::Need(one, need.clone())));
            self.search(&choices, &[chosen, &[one]].concat())
        })
    }

    /// Whether something may be chosen beside the others.
    fn fits(&self, at: usize, chosen: &[usize]) -> bool {
        let one = &self.things[at];
        let replaces = |at: usize, other: usize| {
            self.asked.iter().any(|asked| {
                asked.installed == Some(other) && self.candidates(&Choice::Asked(asked.clone())).contains(&at)
            })
        };
        !one.is_deprecated
            && chosen.iter().all(|other| {
                let that = &self.things[*other];
                that.package != one.package
                    && that.kinds.is_disjoint(&one.kinds)
                    && (at == *other || !replaces(at, *other) && !replaces(*other, at))
            })
            && one.needs.iter().all(|need| !self.candidates(&Choice::Need(at, need.clone())).is_empty())
    }

    fn candidates(&self, choice: &Choice) -> Vec<usize> {
        let is_met = |at: &usize| {
            let one = &self.things[*at];
            match choice {
                Choice::Need(_, need) => (one.catalog.is_none() || !one.is_skipped) && need.is_met_by(one),
                Choice::Asked(asked) => {
                    let edge =
                        asked.installed.is_none_or(|installed| self.reaches(&self.things[installed], one));
                    one.catalog == Some(asked.catalog)
                        && one.package == asked.package
                        && asked.channel.is_none_or(|channel| channel == one.channel)
                        && edge
                        && !one.is_skipped
                }
            }
        };
        let mut found: Vec<usize> = (0..self.things.len()).filter(is_met).collect();
        let own = match choice {
            Choice::Need(at, _) => self.things[*at].catalog,
            Choice::Asked(_) => None,
        };
        found.sort_by_key(|at| {
            let one = &self.things[*at];
            let catalog = one.catalog.map(|catalog| (Some(catalog) != own, catalog));
            (catalog, one.channel, one.package, std::cmp::Reverse(one.version))
        });
        if let Choice::Asked(asked) = choice
            && self.is_offered(asked)
        {
            found.extend(asked.installed);
        }
        found
    }

    /// Whether the catalog has the package and the channel.
    fn is_offered(&self, asked: &Asked) -> bool {
        self.things.iter().any(|one| {
            one.catalog == Some(asked.catalog)
                && one.package == asked.package
                && asked.channel.is_none_or(|channel| channel == one.channel)
        })
    }

    /// Whether an entry replaces or skips what is installed: the version before in its channel.
    fn reaches(&self, installed: &Thing, one: &Thing) -> bool {
        let before = self.things.iter().filter(|other| {
            (other.catalog, other.package, other.channel) == (one.catalog, one.package, one.channel)
                && other.version < one.version
        });
        before.map(|other| other.version).max() == Some(installed.version)
    }

    fn is_solution(&self, chosen: &[usize]) -> bool {
        let is_met = |choice: &Choice| self.candidates(choice).iter().any(|one| chosen.contains(one));
        chosen.iter().enumerate().all(|(place, at)| {
            let others = [&chosen[..place], &chosen[place + 1..]].concat();
            self.fits(*at, &others)
                && self.things[*at].needs.iter().all(|need| is_met(&Choice::Need(*at, need.clone())))
        }) && self.asked.iter().all(|asked| is_met(&Choice::Asked(asked.clone())))
            && (0..self.things.len()).all(|at| !self.is_free(at) || chosen.contains(&at))
    }

    /// Whether any set of things is a solution: all are tried. `None` when there are too many.
    pub(super) fn has_solution(&self) -> Option<bool> {
        let count = u32::try_from(self.things.len()).unwrap();
        (count <= 8).then(|| {
            (0..1_usize << count).any(|set| {
                let chosen: Vec<usize> = (0..self.things.len()).filter(|at| set >> at & 1 == 1).collect();
                self.is_solution(&chosen)
            })
        })
    }
}

/// Something of which one is to be chosen.
#[derive(Debug, Clone)]
enum Choice {
    Asked(Asked),
    /// Of what a thing needs.
    Need(usize, Need),
}

/// Installs a version of a package that may be in a catalog.
fn install(dice: &mut Dice, package: usize, things: &mut Vec<Thing>, world: &mut World) -> Option<usize> {
    let known: Vec<usize> = (0..things.len()).filter(|at| things[*at].package == package).collect();
    let mut thing = things.get(*known.get(dice.below(known.len() + 1))?)?.clone();
    thing.catalog = None;
    thing.channel = 0;
    thing.is_deprecated = false;
    let version = format!("{}.0.0", thing.version);
    let mut properties = vec![json!({
        "type": "olm.package",
        "value": {"packageName": PACKAGES[package], "version": version},
    })];
    properties
        .extend(thing.properties().into_iter().map(|(kind, value)| json!({"type": kind, "value": value})));
    *world = std::mem::take(world).csv(&thing.name(), &version, Some(json!(properties)));
    things.push(thing);
    Some(things.len() - 1)
}
