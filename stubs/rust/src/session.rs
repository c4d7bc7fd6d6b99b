//! The state of one stream of the server's, from its config to its summary: what may be sent, and whether what was received
//! keeps to the grammar. It does no I/O.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::num::NonZeroUsize;

use crate::config::Config;
use crate::error::{Error, ItemError};
use crate::features::{FeatureBytes, Features};
use crate::path::{element_bytes, Completion, Path, Received};
use crate::v1::{
    self, FeatureChunk, ImagePlan, ItemErrorReason, ItemPlan, Ready, ResultOrder, StreamFailure, StreamLimits, Summary,
    TensorSpec,
};

/// What is told of an item of the path `P`.
// Most events are results, and each is taken out at once.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Event<P> {
    /// What will come of an item, long before its features: the plan is made from the image's header.
    Plan {
        /// The item.
        id: i32,
        /// The item's label, as sent.
        label: String,
        /// Geometry, token count and the exact tensor.
        plan: ImagePlan,
    },
    /// The end of an item.
    Result(ItemResult<P>),
}

/// The one end of one item of the path `P`.
#[derive(Debug)]
pub struct ItemResult<P> {
    /// What `send` returned for the item.
    pub id: i32,
    /// The item's label, as sent.
    pub label: String,
    /// Its features, or why it has none.
    pub end: Result<Features<P>, ItemError>,
}

/// See the module.
pub(crate) struct Session<P> {
    config: Config,
    ready: Option<Ready>,
    is_leaving: bool,
    failure: Option<StreamFailure>,
    summary: Option<Summary>,
    unfinished: BTreeMap<i32, Unfinished>,
    /// Where items end as sent: the ids of those without an end, in that order.
    order: VecDeque<i32>,
    unfinished_bytes: u64,
    accepted_count: u32,
    path: PhantomData<P>,
}

/// An item that was sent and has no end yet.
struct Unfinished {
    label: String,
    payload_bytes: u64,
    plan: Option<ImagePlan>,
    /// As long as the plan says from the first chunk on.
    features: FeatureBytes,
    filled_bytes: usize,
    /// Why the item was not sent at all. It waits for its turn, where items end as sent.
    refusal: Option<ItemError>,
}

impl<P: Path> Session<P> {
    pub(crate) fn new(config: Config) -> Self {
        Session {
            config,
            ready: None,
            is_leaving: false,
            failure: None,
            summary: None,
            unfinished: BTreeMap::new(),
            order: VecDeque::new(),
            unfinished_bytes: 0,
            accepted_count: 0,
            path: PhantomData,
        }
    }

    pub(crate) fn ready(&self) -> Option<&Ready> {
        self.ready.as_ref()
    }

    pub(crate) fn limits(&self) -> StreamLimits {
        self.ready.as_ref().and_then(|ready| ready.limits.clone()).unwrap_or_default()
    }

    /// The server wants nothing more on this stream.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving || self.failure.is_some()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn take_failure(&mut self) -> Option<StreamFailure> {
        self.failure.take()
    }

    pub(crate) fn accepted_count(&self) -> u32 {
        self.accepted_count
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Items may be sent now, as far as there is room.
    pub(crate) fn takes_items(&self) -> bool {
        self.ready.is_some() && !self.is_leaving() && self.summary.is_none()
    }

    /// The item fits into what server and caller allow at a time. One item always does.
    pub(crate) fn has_room(&self, item: &P::Item) -> bool {
        if self.unfinished.is_empty() || self.is_too_large(item) {
            return true;
        }
        let limits = self.limits();
        let server = usize::try_from(limits.max_unfinished_items).unwrap_or(usize::MAX);
        let most =
            self.config.max_unfinished_items.map_or(server, |caller| server.min(NonZeroUsize::get(caller))).max(1);
        self.unfinished.len() < most && self.unfinished_bytes + P::payload_bytes(item) <= limits.max_unfinished_bytes
    }

    /// Takes an item. `false` is for one that is not to be sent: a request that the server cannot take would end the whole
    /// stream, so the item ends with an error instead.
    pub(crate) fn begin(&mut self, id: i32, item: &P::Item, events: &mut VecDeque<Event<P>>) -> bool {
        let label = P::label(item).to_owned();
        let refusal = self.is_too_large(item).then(|| {
            let limits = self.limits();
            let expected = limits.max_request_bytes;
            let found = P::largest_request_bytes(item, &limits);
            let message = format!("Expected a request of at most {expected} bytes, got up to {found}; not sent");
            let reason = ItemErrorReason::ImageBytesExceeded.into();
            ItemError { id, label: label.clone(), reason, message, field: String::new(), retry_after: None }
        });
        let is_sent = refusal.is_none();
        if !is_sent && self.order.is_empty() {
            events.extend(refusal.map(|error| Event::Result(ItemResult { id, label, end: Err(error) })));
            return false;
        }
        let payload_bytes = if is_sent { P::payload_bytes(item) } else { 0 };
        self.accepted_count += u32::from(is_sent);
        self.unfinished_bytes += payload_bytes;
        let features = FeatureBytes::default();
        self.unfinished.insert(id, Unfinished { label, payload_bytes, plan: None, features, filled_bytes: 0, refusal });
        if self.config.order == ResultOrder::AsSent {
            self.order.push_back(id);
        }
        is_sent
    }

    fn is_too_large(&self, item: &P::Item) -> bool {
        let limits = self.limits();
        let limit = u64::from(limits.max_request_bytes);
        limit > 0 && P::largest_request_bytes(item, &limits) > limit
    }

    /// The server has still to end the item.
    pub(crate) fn awaits_end(&self, id: i32) -> bool {
        self.unfinished.get(&id).map_or(false, |item| item.refusal.is_none())
    }

    /// Takes one message of the server, and adds what it tells of items to `events`.
    pub(crate) fn receive(&mut self, received: Received, events: &mut VecDeque<Event<P>>) -> Result<(), Error> {
        match received {
            Received::Unknown => return Ok(()),
            _ if self.summary.is_some() => {
                return Err(Error::protocol("Expected nothing after the summary, got another message"))
            }
            Received::Goaway => self.is_leaving = true,
            Received::Failure(failure) => self.failure = Some(failure),
            Received::Ready(ready) => return self.receive_ready(*ready),
            // A server that is leaving may end a stream before it is open.
            Received::Summary(summary) if self.ready.is_some() || self.is_leaving => {
                return self.receive_summary(summary)
            }
            _ if self.ready.is_none() => return Err(Error::protocol("Expected ready first, got another message")),
            Received::Plan(plan) => return self.receive_plan(plan, events),
            Received::Features(id, chunk) => return self.receive_features(id, chunk),
            Received::Completion(completion) => return self.receive_completion(completion, events),
            Received::Error(error) => return self.receive_error(error, events),
            Received::Summary(_) => {}
        }
        Ok(())
    }

    /// Takes the end with the status OK. `None` where the server left before the stream was open.
    pub(crate) fn receive_end(&mut self) -> Result<Option<Summary>, Error> {
        match self.summary.take() {
            None if self.ready.is_some() || !self.is_leaving => {
                Err(Error::protocol("Expected a summary before the stream's end, got none"))
            }
            summary => Ok(summary),
        }
    }

    fn receive_ready(&mut self, ready: Ready) -> Result<(), Error> {
        if self.ready.is_some() {
            return Err(Error::protocol("Expected ready once, got another"));
        }
        if ready.path != P::PATH as i32 {
            return Err(Error::protocol(format_args!("Expected a stream of {:?}, got {:?}", P::PATH, ready.path())));
        }
        self.ready = Some(ready);
        Ok(())
    }

    fn receive_plan(&mut self, sent: ItemPlan, events: &mut VecDeque<Event<P>>) -> Result<(), Error> {
        let id = sent.id;
        let plan = sent.plan.unwrap_or_default();
        self.check_tensor(&plan.features.clone().unwrap_or_default())?;
        let item = self.awaited(id)?;
        if item.plan.is_some() {
            return Err(Error::protocol(format_args!("Expected one plan of item {id}, got another")));
        }
        if sent.path != P::PATH as i32 {
            return Err(Error::protocol(format_args!(
                "Expected a plan of {:?}, got one of path {}",
                P::PATH,
                sent.path
            )));
        }
        item.plan = Some(plan.clone());
        events.push_back(Event::Plan { id, label: item.label.clone(), plan });
        Ok(())
    }

    /// Checks a planned tensor, whose size is going to be allocated, against itself, the stream and its limits.
    fn check_tensor(&self, spec: &TensorSpec) -> Result<(), Error> {
        let expected = self.config.data_type;
        if spec.data_type != expected as i32 {
            return Err(Error::protocol(format_args!("Expected a plan of {expected:?}, got {:?}", spec.data_type())));
        }
        let size = spec.shape.iter().try_fold(element_bytes(expected), |size, length| {
            size.checked_mul(u64::try_from(*length).ok().filter(|length| *length > 0)?)
        });
        let limit = self.limits().max_feature_bytes;
        if spec.shape.is_empty() || size != Some(u64::from(spec.size_bytes)) || spec.size_bytes > limit {
            return Err(Error::protocol(format_args!(
                "Expected a plan of as many bytes as its tensor has, and at most {limit}, got {} for {:?} of {expected:?}",
                spec.size_bytes, spec.shape
            )));
        }
        Ok(())
    }

    fn receive_features(&mut self, id: i32, chunk: Option<FeatureChunk>) -> Result<(), Error> {
        let item = self.awaited(id)?;
        let size = planned_bytes(id, item.plan.as_ref())?;
        let chunk = chunk.ok_or_else(|| {
            Error::protocol(format_args!("Expected features of item {id} in the message, got them elsewhere"))
        })?;
        let (begin, end) = (item.filled_bytes, item.filled_bytes + chunk.data.len());
        if chunk.offset_bytes as usize != begin || end > size {
            return Err(Error::protocol(format_args!(
                "Expected a chunk of item {id} at {begin} of {size} bytes, got {} bytes at {}",
                chunk.data.len(),
                chunk.offset_bytes
            )));
        }
        if item.features.is_empty() {
            item.features = FeatureBytes::zeros(size);
        }
        item.features.as_mut_slice()[begin..end].copy_from_slice(&chunk.data);
        item.filled_bytes = end;
        Ok(())
    }

    fn receive_completion(&mut self, completion: Completion, events: &mut VecDeque<Event<P>>) -> Result<(), Error> {
        let id = completion.id;
        let item = self.awaited(id)?;
        let size = planned_bytes(id, item.plan.as_ref())?;
        if item.filled_bytes != size {
            let found = item.filled_bytes;
            return Err(Error::protocol(format_args!(
                "Expected {size} bytes of item {id} before its completion, got {found}"
            )));
        }
        let (plan, bytes) = (item.plan.take().unwrap_or_default(), std::mem::take(&mut item.features));
        let made = &completion.provenance;
        let digest = self.ready.as_ref().map(|ready| &ready.config_sha256);
        if made.path != P::PATH as i32 || Some(&made.config_sha256) != digest {
            return Err(Error::protocol(format_args!(
                "Expected item {id} made by {:?} with the stream's config, got path {} with another one, or both",
                P::PATH,
                made.path
            )));
        }
        let Completion { provenance, timings, cache, .. } = completion;
        self.end(id, Ok(Features { plan, bytes, provenance, timings, cache, path: PhantomData }), events)
    }

    fn receive_error(&mut self, sent: v1::ItemError, events: &mut VecDeque<Event<P>>) -> Result<(), Error> {
        let label = self.awaited(sent.id)?.label.clone();
        self.end(sent.id, Err(ItemError::of_message(sent, label)), events)
    }

    fn receive_summary(&mut self, summary: Summary) -> Result<(), Error> {
        if !self.unfinished.is_empty() {
            let count = self.unfinished.len();
            return Err(Error::protocol(format_args!(
                "Expected {count} more items to end before the summary, got none"
            )));
        }
        let ended =
            [summary.completed_count, summary.failed_count, summary.cancelled_count].map(u64::from).iter().sum::<u64>();
        let expected = self.accepted_count;
        if summary.accepted_count != expected || ended != u64::from(expected) {
            let found = summary.accepted_count;
            return Err(Error::protocol(format_args!(
                "Expected a summary of {expected} items, got {found} accepted, {ended} ended"
            )));
        }
        self.summary = Some(summary);
        Ok(())
    }

    fn awaited(&mut self, id: i32) -> Result<&mut Unfinished, Error> {
        match self.unfinished.get_mut(&id) {
            Some(item) if item.refusal.is_none() => Ok(item),
            _ => {
                Err(Error::protocol(format_args!("Expected a message of an item without an end, got one of item {id}")))
            }
        }
    }

    /// Takes the end of an item, and of those that were not sent and waited for their turn behind it.
    fn end(
        &mut self,
        id: i32,
        end: Result<Features<P>, ItemError>,
        events: &mut VecDeque<Event<P>>,
    ) -> Result<(), Error> {
        if let Some(first) = self.order.pop_front().filter(|first| *first != id) {
            return Err(Error::protocol(format_args!(
                "Expected item {first} to end first, as sent, got the end of item {id}"
            )));
        }
        if let Some(item) = self.unfinished.remove(&id) {
            self.unfinished_bytes -= item.payload_bytes;
            events.push_back(Event::Result(ItemResult { id, label: item.label, end }));
        }
        while let Some(id) = self.order.front().copied().filter(|id| !self.awaits_end(*id)) {
            self.order.pop_front();
            if let Some(Unfinished { label, refusal: Some(error), .. }) = self.unfinished.remove(&id) {
                events.push_back(Event::Result(ItemResult { id, label, end: Err(error) }));
            }
        }
        Ok(())
    }
}

fn planned_bytes(id: i32, plan: Option<&ImagePlan>) -> Result<usize, Error> {
    let spec = plan.and_then(|plan| plan.features.as_ref());
    let size = spec.map(|spec| spec.size_bytes as usize);
    size.ok_or_else(|| Error::protocol(format_args!("Expected the plan of item {id} first, got another message of it")))
}
