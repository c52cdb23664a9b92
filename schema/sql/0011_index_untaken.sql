-- Indexes the rows of live that no worker has taken. They are looked for many
-- times a second, and beside them lie the rows of all that ended since the last
-- vacuum: hundreds of thousands under load, or while a long transaction holds
-- them. What is claimed has an owner from the start and enters no index more.
-- Lock cost: live is locked while it is read once, milliseconds.

create index live_untaken on live (since) where owner is null;
