//! The end of a load: from documents that are sound and settled to one [`Manifest`].

use std::collections::BTreeSet;

use super::Loader;
use crate::manifest::claw::HEARTBEAT;
use crate::manifest::identity::Autonomy;
use crate::manifest::keywords::{self, Misspelt};
use crate::manifest::primitive::Document;
use crate::manifest::problem::DocumentError;
use crate::manifest::profile::Profile;
use crate::manifest::provider::{self, ProviderPlan};
use crate::manifest::remote::Fetched;
use crate::manifest::tool::{self, ToolBinding};
use crate::manifest::{Manifest, PROFILE_NONE, memory, notes, policy, sandbox, swarm, telemetry};
use crate::policy::PolicySet;
use crate::uri::Kind;

/// The name of a Claw that the host supplies.
const HOST_SUPPLIED_NAME: &str = "clawhost";

impl Loader<'_> {
    /// Rules name folders as tools see them, and tools the skills that they wrap: what those are is known
    /// once everything is. Of what was sent no keyword of a schema may be a slip: nobody reads a note of it.
    fn check_together(&mut self) {
        let mut problems = std::mem::take(&mut self.problems);
        let own = self.own_profiles();
        let mounts: Vec<_> = own.iter().flat_map(|profile| &profile.mounts).collect();
        self.of_kind(Kind::Policy).for_each(|of| {
            policy::check_folders(&of.spec, &mounts, &mut problems);
        });
        let skills: Vec<&Document> = self.of_kind(Kind::Skill).collect();
        self.of_kind(Kind::Tool).for_each(|of| tool::check_skill(of, &skills, &mut problems));
        let sent = self.of_kind(Kind::Tool).filter(|_| self.known.wire);
        let misspelt = sent.flat_map(keywords::misspelt);
        misspelt.for_each(|keyword| problems.push(keyword.problem()));
        self.problems = problems;
    }

    /// Returns the manifest, or every problem of the load.
    pub(super) fn finish(mut self) -> Result<Manifest, Vec<DocumentError>> {
        if self.sound() {
            self.check_together();
        }
        let manifest = self.sound().then(|| self.manifest());
        self.problems.finish(manifest)
    }

    fn sound(&self) -> bool {
        self.primitives.iter().all(|of| of.sound)
            && self.claw.as_ref().is_none_or(|claw| claw.sound)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Document> {
        self.primitives.iter().filter(move |of| of.is(kind))
    }

    fn own_profiles(&self) -> Vec<Profile> {
        self.of_kind(Kind::Sandbox).map(|of| sandbox::read(of, self.around.directory)).collect()
    }

    fn manifest(&self) -> Manifest {
        let own = self.own_profiles();
        let policies = PolicySet::new(self.of_kind(Kind::Policy).map(policy::read).collect());
        let tools = self.bindings();
        let providers: Vec<_> = self.of_kind(Kind::Provider).map(provider::read).collect();
        let mut notes = self.notes(&tools, &policies, &providers, &own);
        let mut profiles = self.around.profiles.clone();
        profiles.extend(own.into_iter().map(|profile| (profile.name.clone(), profile)));
        let mounts: Vec<_> = profiles.values().flat_map(|profile| &profile.mounts).collect();
        notes.extend(policy::folder_note(policies.policies(), &mounts));
        Manifest {
            name: self.name().to_owned(),
            version: self.claw.as_ref().and_then(|claw| claw.version.clone()),
            identity: self.identity(),
            autonomy: self.autonomy(),
            tools,
            profiles,
            default_profile: self.default_profile.clone(),
            policies,
            providers,
            kinds: self.kinds(),
            fetched: self.remote.fetched.clone(),
            heartbeat: self.claw.as_ref().map_or_else(|| Some(HEARTBEAT), |claw| claw.heartbeat),
            memory: memory::plan(&self.primitives, self.around.directory),
            swarms: self.of_kind(Kind::Swarm).map(swarm::read).collect(),
            members: self.of_kind(Kind::Swarm).flat_map(swarm::members).collect(),
            versions: self.known.versions.clone(),
            telemetry: self
                .of_kind(Kind::Telemetry)
                .next()
                .map(|of| telemetry::read(of, self.around.directory)),
            supplied_by_host: self.claw.is_none(),
            notes,
            // The rest is the runtime file's.
            ..Manifest::default()
        }
    }

    /// What is not wrong and does nothing, or more than its author may think.
    fn notes(
        &self,
        tools: &[ToolBinding],
        policies: &PolicySet,
        providers: &[ProviderPlan],
        own: &[Profile],
    ) -> Vec<String> {
        let mut notes: Vec<String> = self.primitives.iter().flat_map(notes::unserved).collect();
        notes.extend(notes::category_note(tools, policies));
        notes.extend(self.primitives.iter().filter_map(notes::foreign_category));
        notes.extend(notes::never_tried(policies));
        notes.extend(notes::never_retried(tools));
        notes.extend(self.claw.iter().filter(|_| policies.policies().is_empty()).map(|of| {
            let at = of.at.to_string();
            format!("{at}: there is no policy, so every call is denied: add `policies:` with a rule that allows what may be called")
        }));
        notes.extend(own.iter().flat_map(Profile::notes));
        notes.extend(self.of_kind(Kind::Policy).flat_map(policy::notes));
        notes.extend(providers.iter().filter_map(ProviderPlan::note));
        notes.extend(self.remote.fetched.iter().map(Fetched::note));
        notes
    }

    fn name(&self) -> &str {
        self.claw.as_ref().map_or(HOST_SUPPLIED_NAME, |claw| &claw.name)
    }

    fn identity(&self) -> String {
        let identity = self.of_kind(Kind::Identity).next();
        identity.map_or_else(|| self.name(), |of| &of.name).to_owned()
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        let profile = self.default_profile.as_ref().map(|_| Kind::Sandbox);
        self.primitives.iter().filter_map(|of| of.kind).chain(profile).collect()
    }

    fn autonomy(&self) -> Autonomy {
        let identity = self.of_kind(Kind::Identity).next();
        identity.map_or(Autonomy::Autonomous, |of| of.spec.read(&["autonomy"]).unwrap_or_default())
    }

    fn bindings(&self) -> Vec<ToolBinding> {
        let default = self.default_profile.as_deref().unwrap_or(PROFILE_NONE);
        let bind = |of| ToolBinding {
            skill: tool::skill(of, self.of_kind(Kind::Skill)),
            notes: keywords::misspelt(of).iter().map(Misspelt::note).collect(),
            ..tool::read(of, default)
        };
        self.of_kind(Kind::Tool).map(bind).collect()
    }
}
