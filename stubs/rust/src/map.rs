//! Many items, and their results.

use std::iter::Fuse;

use crate::error::Error;
use crate::path::Path;
use crate::session::{Event, ItemResult};
use crate::stream::Stream;

/// Sends items, and gives their results; see [`Stream::map`].
pub struct Map<'s, P: Path, I: Iterator<Item = P::Item>> {
    stream: &'s mut Stream<P>,
    items: Fuse<I>,
    /// The item that waits for room.
    waiting: Option<P::Item>,
}

impl<'s, P: Path, I: Iterator<Item = P::Item>> Map<'s, P, I> {
    pub(crate) fn new(stream: &'s mut Stream<P>, items: I) -> Self {
        Map { stream, items: items.fuse(), waiting: None }
    }

    /// The next result; `None` when every item has had its own. Its future may be dropped at any time.
    pub async fn next(&mut self) -> Result<Option<ItemResult<P>>, Error> {
        loop {
            while let Some(event) = self.stream.take_event() {
                if let Event::Result(result) = event {
                    return Ok(Some(result));
                }
            }
            if self.waiting.is_none() {
                self.waiting = self.items.next();
            }
            let has_room = match &self.waiting {
                None if self.stream.is_idle() => return Ok(None),
                None => false,
                Some(item) => self.stream.has_room(item).await?,
            };
            match self.waiting.take() {
                Some(item) if has_room => {
                    self.stream.begin(item);
                    self.stream.flush().await?;
                }
                item => {
                    self.waiting = item;
                    self.stream.read().await?;
                }
            }
        }
    }
}
