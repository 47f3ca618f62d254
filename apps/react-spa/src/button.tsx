import type { ReactNode } from "react";

interface Props {
  readonly children: ReactNode;
  readonly isOff?: boolean;
  readonly isMain?: boolean;
  readonly type?: "button" | "submit";
  readonly onPress?: () => void;
}

/** A button that keeps the focus when it is off: a `disabled` one would drop it while somebody stands on it. */
export function Button({ children, isOff = false, isMain = false, type = "button", onPress }: Props) {
  return (
    <button
      type={type}
      className={isMain ? "main" : ""}
      aria-disabled={isOff}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onPress?.();
      }}
    >
      {children}
    </button>
  );
}
