"""The hooks in torch: installed once, removed without a trace, and harmless if the guard breaks.

What a version of torch does not have is left out; the checks that need it are unknown.
"""

from __future__ import annotations

from types import ModuleType

from . import (
    batch_hooks,
    clips,
    hook_growth,
    kept_states,
    loss_hooks,
    save_hooks,
    scaler_hooks,
    schedules,
    step_hooks,
)
from .patches import Patches
from .protection import Protection
from .switch import Switch
from .watch import Watch


class Hooks:
    """The hooks of one watch."""

    def __init__(self, torch: ModuleType, watch: Watch) -> None:
        self.watch = watch
        self.switch = Switch(torch, self._failed)
        self.patches = Patches()
        self._protection = Protection(torch) if watch.settings.protect else None

    @property
    def active(self) -> bool:
        """Whether they do more than pass through."""
        return self.switch.active

    def install(self) -> None:
        """Install all hooks that this torch has a place for."""
        switch, patches, watch = self.switch, self.patches, self.watch
        if switch.active:
            return
        switch.active = True
        switch.safely(step_hooks.install, switch, patches, watch, self._protection)
        switch.safely(loss_hooks.install, switch, patches, watch)
        switch.safely(scaler_hooks.install, switch, patches, watch)
        switch.safely(save_hooks.install, switch, patches, watch)
        switch.safely(clips.install, switch, patches, watch.clips)
        switch.safely(kept_states.install, switch, patches, watch.kept_states)
        switch.safely(schedules.install, switch, patches, watch.schedules)
        switch.safely(hook_growth.install, switch, patches, watch.hook_growth)
        batches = watch.batches, watch.first_batches, watch.early, watch.evaluations, watch.waits
        ended = watch.passes.unstepped.ended
        switch.safely(batch_hooks.install, switch, patches, *batches, ended)
        if watch.batch_waited is not None:
            switch.safely(batch_hooks.install_clock, switch, patches, watch.batch_waited)

    def remove(self) -> None:
        """Restore every attribute, unless somebody else has replaced it since."""
        self.deactivate()
        self.watch.evaluations.end()
        self.patches.remove()

    def deactivate(self) -> None:
        """From now on the hooks only pass through."""
        self.switch.active = False
        self.watch.steady.disarm()

    def _failed(self, error: str) -> None:
        self.watch.steady.disarm()
        self.watch.start()  # the record says why there is no step
        self.watch.close(f"error: {error}")
